// bounded: compares models with slots (Bounded-Cache Transformers, Yi et al. 2024) with a model of
// the same training data that keeps rows. Measures perplexity by context, and the time of a token
// and the bytes held by the number of tokens before it. Also shows runs of kvick train on made-up
// sequences: right answers by slots.
//
// To reach a depth the cache is filled without computing: with rows of random keys and values, or
// with the same number of random values added to the slots. A token's time does not depend on the
// values.

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/eval/perplexity.h"
#include "engine/eval/speed.h"
#include "lab/data/recall.h"
#include "lab/measure/filled.h"
#include "lab/measure/sampled_decode.h"
#include "lab/measure/selections.h"
#include "lab/reading/bounded_findings.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kLongest = 65536;            // default depth, at most the models' context
constexpr uint32_t kLongestContext = 8192;      // for perplexity
constexpr uint32_t kDepths = 6, kContexts = 5;  // each twice the one before, up to the longest
constexpr uint32_t kLeast = 512;  // at least: the smallest depth must have room for the timed steps
constexpr uint32_t kWarm = 4, kTimed = 11;  // steps
constexpr uint32_t kWindows = 4;            // of the longest context, read of the text by default

// A model of the comparison, with a unique name.
struct Member {
  std::string name;
  engine::Engine* engine = nullptr;
  uint32_t slots = 0;  // per KV head; 0: it keeps rows
};

// kvick train gives all models the same file name, but different folders.
std::string name_of(const std::string& path) {
  const std::string stem = stem_of(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path().filename();
  return stem == "model" && !folder.empty() ? folder.string() : stem;
}

uint32_t slots_of(const engine::Engine& engine) {
  const kv::Slots* memory = engine.model().trained_slots();
  return memory != nullptr ? memory->slots : 0;
}

std::vector<uint32_t> halves_of(uint32_t longest, uint32_t count) {
  std::vector<uint32_t> halves;
  for (uint32_t i = count; i-- > 0;) halves.push_back(longest >> i);
  return halves;
}

class BoundedReport final : public Experiment {
 public:
  explicit BoundedReport(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(recall_, read_recall(bench_.bounded.recall));
    if (bench_.bounded.models.empty()) {
      if (recall_.empty())
        return base::fail(
            "bounded needs models with a memory of slots, --bounded FILE, or runs on "
            "made-up sequences, --recall FILE");
      return std::vector<Cell>{};
    }
    KVICK_TRY_VOID(open_models());
    KVICK_TRY_VOID(choose_longest());
    std::vector<Cell> cells;
    if (bench_.file.empty()) {
      bench_.note("without --file TEXT there is no perplexity");
    } else {
      KVICK_TRY_VOID(read_text());
      for (const uint32_t context : halves_of(longest_context_, kContexts))
        for (const Member& member : members_) cells.push_back(perplexity_cell(member, context));
    }
    for (const uint32_t depth : halves_of(longest_, kDepths))
      for (const Member& member : members_) cells.push_back(decode_cell(member, depth));
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    const auto member = std::find_if(members_.begin(), members_.end(), [&](const Member& one) {
      return cell.what["model"] == one.name;
    });
    if (cell.what["part"] == kDecodePart)
      return decode(*member, cell.what["depth"].get<uint32_t>());
    // Perplexity is the same in every round, so it is computed once.
    if (const auto known = perplexities_.find(cell.key); known != perplexities_.end())
      return known->second;
    KVICK_TRY(const Json found, perplexity(*member, cell.what["context"].get<uint32_t>()));
    perplexities_[cell.key] = found;
    return found;
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    findings.summary = Json::object();
    if (!members_.empty()) add_perplexity(all, members_[0].name, bench_.bounded.trained, findings);
    add_decode(all, findings);
    add_recall(recall_, findings);
    return findings;
  }

 private:
  base::Status<> open_models() {
    KVICK_TRY(engine::Engine * rows, model_of(bench_, "bounded"));
    members_ = {{.name = name_of(bench_.model_path), .engine = rows}};
    if (slots_of(*rows) != 0)
      return base::fail(
          "{} reads a memory of slots: give it with --bounded, and with -m a model "
          "that keeps rows",
          members_[0].name);
    for (const std::string& path : bench_.bounded.models) {
      KVICK_TRY(engine::Engine * engine, bench_.open(path));
      Member member = {.name = name_of(path), .engine = engine, .slots = slots_of(*engine)};
      if (member.slots == 0)
        return base::fail(
            "{} keeps rows of keys and values: --bounded is for models with a memory "
            "of slots, which kvick train bct makes",
            member.name);
      for (const Member& other : members_)
        if (other.name == member.name)
          return base::fail("two models are called {}: rename a file", member.name);
      members_.push_back(std::move(member));
    }
    return base::Done{};
  }

  base::Status<> choose_longest() {
    longest_ = bench_.tokens != 0 ? bench_.tokens : kLongest;
    for (const Member& member : members_) {
      const uint32_t context = member.engine->model().config().context;
      if (bench_.tokens == 0) longest_ = std::min(longest_, context);
      if (longest_ > context)
        return base::fail(
            "a context of {} tokens was asked for, but {} has {}; kvick train export "
            "--ctx says how many a file has",
            longest_, member.name, context);
    }
    if (longest_ < kLeast)
      return base::fail("a context of {} tokens is too short to time: {} are the least", longest_,
                        kLeast);
    longest_context_ = std::min(longest_, kLongestContext);
    return base::Done{};
  }

  // Reads the text as tokens, which must be the same for all models.
  base::Status<> read_text() {
    KVICK_TRY(text_, text_of(bench_, "bounded"));
    for (const Member& member : members_)
      if (member.engine->model().config().vocab != members_[0].engine->model().config().vocab)
        return base::fail(
            "{} and {} have different vocabularies, so that their perplexities cannot be compared",
            members_[0].name, member.name);
    most_ = bench_.text_tokens != 0 ? bench_.text_tokens : kWindows * longest_context_;
    most_ = static_cast<uint32_t>(std::min<size_t>(most_, text_.size()));
    // Only whole windows at every context, so that all predict the same tokens except the first
    // ones.
    most_ -= most_ % longest_context_;
    if (most_ == 0)
      return base::fail(
          "{} tokens of text do not fill a context of {}: give more, or a smaller "
          "--ctx",
          text_.size(), longest_context_);
    return base::Done{};
  }

  Cell perplexity_cell(const Member& member, uint32_t context) const {
    return {.key = fmt::format("perplexity {} M={} {} of {} {}", member.name, member.slots, context,
                               most_, stem_of(bench_.file)),
            .what = {{"part", kPerplexityPart},
                     {"model", member.name},
                     {"slots", member.slots},
                     {"context", context},
                     {"text", stem_of(bench_.file)},
                     {"tokens", most_}}};
  }

  Cell decode_cell(const Member& member, uint32_t depth) const {
    return {.key = fmt::format("decode {} M={} at {}", member.name, member.slots, depth),
            .what = {{"part", kDecodePart},
                     {"model", member.name},
                     {"slots", member.slots},
                     {"depth", depth}}};
  }

  base::Result<Json> perplexity(const Member& member, uint32_t context) const {
    KVICK_TRY(const engine::Perplexity found,
              engine::perplexity(*member.engine, text_, {.window = context, .most = most_}));
    return Json{{"perplexity", found.perplexity},
                {"nll", found.nll},
                {"nll_error", found.nll_error},
                {"predicted", found.tokens},
                {"kv_bytes", found.kv_bytes}};
  }

  // Times the last tokens before the depth, one by one.
  base::Result<Json> decode(const Member& member, uint32_t depth) const {
    engine::KvOptions kv;
    kv.max_tokens = depth;
    KVICK_TRY(std::unique_ptr<kv::Store> store, member.engine->make_store(kv));
    Filled filled(*member.engine, std::move(store), 1);
    const auto times = steps_at(filled, depth);
    if (!times.ok())
      return base::fail("{} at {} tokens: {}; take less with --ctx", member.name, depth,
                        times.error().what);
    return Json{{"step_s", engine::median(*times)},
                {"allocated_bytes", filled.usage().allocated_bytes}};
  }

  static base::Result<std::vector<double>, kv::Shortage> steps_at(Filled& filled, uint32_t depth) {
    KVICK_TRY_VOID(filled.fill(depth - kWarm - kTimed));
    std::vector<double> times;
    for (uint32_t i = 0; i < kWarm + kTimed; ++i) {
      KVICK_TRY(const double seconds, filled.step());
      if (i >= kWarm) times.push_back(seconds);
    }
    return times;
  }

  Bench bench_;
  std::vector<Member> members_;  // the first one keeps rows
  std::vector<engine::Token> text_;
  std::vector<RecallRun> recall_;
  std::map<std::string, Json> perplexities_;  // by the cell's key
  uint32_t longest_ = 0, longest_context_ = 0, most_ = 0;
};

}  // namespace

std::unique_ptr<Experiment> make_bounded(const Bench& bench) {
  return std::make_unique<BoundedReport>(bench);
}

}  // namespace kvick::lab
