// moved: how much worse an answer gets if the prompt reuses rows of tokens that stood at another
// position in an earlier prompt (serve --reuse shift).
//
// Two prompts consist of a beginning, a part that differs, and a long middle. The second prompt
// reuses the first one's rows of the middle, except for a seam at its front, which it computes
// again. Then a continuation is read token by token. The cost is its perplexity, and the divergence
// from the distribution after a prompt computed completely: reused rows still depend on the tokens
// that originally preceded them.

#include <algorithm>
#include <cmath>

#include "kv/strategy/facet_calls.h"
#include "lab/core/experiment.h"
#include "lab/data/shapes.h"
#include "lab/measure/selections.h"
#include "model/attend/moved_rows.h"

namespace kvick::lab {
namespace {

using engine::Token;
using Tokens = std::span<const Token>;

constexpr uint32_t kBegin = 128, kOld = 64, kNew = 81, kMiddle = 512, kAnswer = 64;
constexpr uint32_t kPlace = kBegin + kOld + kNew + kMiddle + kAnswer;  // tokens of the text
constexpr uint32_t kPlaces = 12;                                       // by default
constexpr uint32_t kSeams[] = {0, 4, 16, 64, 256};

// Reads one sequence after the other in one store, which keeps no rows between them.
class Reader {
 public:
  static base::Result<Reader> open(engine::Engine& engine) {
    KVICK_TRY(const engine::KvOptions options, engine::parse_kv_options("virtual", ""));
    KVICK_TRY(std::unique_ptr<kv::Store> store, engine.make_store(options));
    if (const std::string why = model::why_not_moved(engine.model().config(), store->info());
        !why.empty())
      return base::fail("moved: {}", why);
    return Reader(engine, std::move(store));
  }
  void begin() {
    store_->close(seq_);
    seq_ = store_->open({}).seq;
  }
  base::Status<> read(Tokens tokens) {
    const model::Slot slot = {.seq = seq_,
                              .past = store_->length(seq_),
                              .tokens = tokens,
                              .parents = {},
                              .reusable = false};
    const auto last = static_cast<uint32_t>(tokens.size() - 1);
    const auto done = executor_.advance(*store_, {.slots = {&slot, 1}}, {&last, 1});
    if (!done.ok()) return base::fail("no room in the cache: {}", done.error().what);
    return base::Done{};
  }
  std::vector<std::byte> rows(uint32_t first, uint32_t count) const {
    std::vector<std::byte> rows(count * store_->info().token_bytes());
    store_->facets().rows->read_rows(seq_, first, count, rows);
    return rows;
  }
  base::Status<> append(Tokens tokens, std::vector<std::byte> rows, int64_t by) {
    model::move_rows(engine_->model().config(), store_->info().groups.front(),
                     {.by = by, .count = static_cast<uint32_t>(tokens.size())}, rows,
                     engine_->kernels(), engine_->pool());
    const auto done = kv::append_rows(*store_, seq_, tokens, rows);
    if (!done.ok()) return base::fail("no room in the cache: {}", done.error().what);
    return base::Done{};
  }
  // Returns the log-probabilities of the next token.
  std::vector<double> next() const {
    const std::span<const float> logits = executor_.logits();
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - most);
    std::vector<double> out(logits.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = logits[i] - most - std::log(sum);
    return out;
  }

 private:
  Reader(engine::Engine& engine, std::unique_ptr<kv::Store> store)
      : engine_(&engine),
        store_(std::move(store)),
        executor_(engine.make_executor()),
        seq_(store_->open({}).seq) {}

  engine::Engine* engine_;
  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  kv::SeqId seq_;
};

// The parts of the text at one place.
struct Place {
  explicit Place(Tokens text)
      : begin(text.first(kBegin)),
        old(text.subspan(kBegin, kOld)),
        changed(text.subspan(kBegin + kOld, kNew)),
        middle(text.subspan(kBegin + kOld + kNew, kMiddle)),
        answer(text.last(kAnswer)) {}
  Tokens begin, old, changed, middle, answer;
};

struct Cost {
  double nll = 0, exact_nll = 0, kl = 0, agrees = 0;  // sums over tokens

  void add(std::span<const double> exact, std::span<const double> moved, Token token) {
    const auto own = static_cast<size_t>(token);
    nll -= moved[own];
    exact_nll -= exact[own];
    for (size_t i = 0; i < exact.size(); ++i) kl += std::exp(exact[i]) * (exact[i] - moved[i]);
    const auto likeliest = [](std::span<const double> of) {
      return std::max_element(of.begin(), of.end()) - of.begin();
    };
    agrees += likeliest(exact) == likeliest(moved);
  }
};

class Moved final : public Experiment {
 public:
  explicit Moved(const Bench& bench)
      : bench_(bench), places_(bench.prompts != 0 ? bench.prompts : kPlaces) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(engine_, model_of(bench_, "moved"));
    KVICK_TRY(text_, text_of(bench_, "moved"));
    if (text_.size() < size_t{places_} * kPlace)
      return base::fail("moved: {} places take {} tokens, and {} has {}: ask for fewer (--prompts)",
                        places_, size_t{places_} * kPlace, bench_.file, text_.size());
    std::vector<Cell> cells;
    for (const uint32_t seam : kSeams)
      cells.push_back(
          {.key = fmt::format("{} {} seam {} of {}, {} places", stem_of(bench_.model_path),
                              stem_of(bench_.file), seam, kMiddle, places_),
           .what = {{"model", stem_of(bench_.model_path)},
                    {"text", stem_of(bench_.file)},
                    {"seam", seam},
                    {"moved", kMiddle - seam},
                    {"places", places_}}});
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    const auto seam = cell.what["seam"].get<uint32_t>();
    KVICK_TRY(Reader exact, Reader::open(*engine_));
    KVICK_TRY(Reader moved, Reader::open(*engine_));
    Cost cost;
    for (uint32_t i = 0; i < places_; ++i) {
      const Place place(Tokens(text_).subspan(text_.size() / places_ * i, kPlace));
      KVICK_TRY_VOID(read(place, seam, exact, moved));
      for (const Token token : place.answer) {
        cost.add(exact.next(), moved.next(), token);
        KVICK_TRY_VOID(exact.read({&token, 1}));
        KVICK_TRY_VOID(moved.read({&token, 1}));
      }
    }
    const double tokens = double{kAnswer} * places_;
    return Json{{"perplexity", std::exp(cost.nll / tokens)},
                {"exact_perplexity", std::exp(cost.exact_nll / tokens)},
                {"kl", cost.kl / tokens},
                {"agreement", cost.agrees / tokens}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {
        .title = fmt::format("{} tokens behind {} others, then {} tokens more, at {} places",
                             kMiddle, kBegin + kNew, kAnswer, places_),
        .columns = {"seam", "tokens taken", "perplexity", "all read", "worse %", "KL, nats",
                    "same likeliest token %"},
        .rows = {}};
    Json cases = Json::array();
    for (const Measured& one : all) {
      if (one.runs.empty()) continue;
      const double worse = 100 * (one.median("perplexity") / one.median("exact_perplexity") - 1);
      table.rows.push_back({fmt::format("{}", one.cell.what["seam"].get<uint32_t>()),
                            fmt::format("{}", one.cell.what["moved"].get<uint32_t>()),
                            fmt::format("{:.3f}", one.median("perplexity")),
                            fmt::format("{:.3f}", one.median("exact_perplexity")),
                            fmt::format("{:+.2f}", worse), fmt::format("{:.4f}", one.median("kl")),
                            fmt::format("{:.1f}", 100 * one.median("agreement"))});
      cases.push_back({{"seam", one.cell.what["seam"]},
                       {"worse_percent", worse},
                       {"kl", one.median("kl")},
                       {"agreement", one.median("agreement")}});
    }
    findings.summary = {{"seams", cases}};
    findings.tables.push_back(std::move(table));
    return findings;
  }

 private:
  // Reads both up to the continuation: `exact` computes everything, `moved` reuses the rows behind
  // the seam.
  static base::Status<> read(const Place& place, uint32_t seam, Reader& exact, Reader& moved) {
    exact.begin();
    for (const Tokens part : {place.begin, place.changed, place.middle})
      KVICK_TRY_VOID(exact.read(part));
    moved.begin();
    for (const Tokens part : {place.begin, place.old, place.middle})
      KVICK_TRY_VOID(moved.read(part));
    std::vector<std::byte> rows = moved.rows(kBegin + kOld + seam, kMiddle - seam - 1);
    moved.begin();
    for (const Tokens part : {place.begin, place.changed, place.middle.first(seam)})
      if (!part.empty()) KVICK_TRY_VOID(moved.read(part));
    KVICK_TRY_VOID(moved.append(place.middle.subspan(seam, kMiddle - seam - 1), std::move(rows),
                                int64_t{kNew} - kOld));
    return moved.read(place.middle.last(1));  // computed for its logits, as a server does
  }

  Bench bench_;
  uint32_t places_;
  engine::Engine* engine_ = nullptr;
  std::vector<Token> text_;
};

}  // namespace

std::unique_ptr<Experiment> make_moved(const Bench& bench) {
  return std::make_unique<Moved>(bench);
}

}  // namespace kvick::lab
