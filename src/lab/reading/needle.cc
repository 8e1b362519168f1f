// needle: whether a model finds a fact planted in a text, by the fact's depth and the text's
// length, with all rows and with those that a policy selects.
//
// The text is read as a prompt, from all rows, as in the policies' papers; question and answer are
// read token by token, so every policy selects rows for each of them. The fact counts as found if
// each token of the answer is the most likely one after those before it. Greedy decoding would then
// write this answer, and it need not be searched in the text that a small model writes around it.

#include <algorithm>
#include <cmath>

#include "engine/session/session.h"
#include "lab/data/needle_text.h"
#include "lab/measure/selections.h"
#include "lab/measure/sequence.h"

namespace kvick::lab {
namespace {

constexpr const char* kBudgets[] = {"0.25"};
constexpr uint32_t kLongest = 2048;                   // by default; at most the model's context
constexpr uint32_t kParts[] = {4, 2, 1};              // lengths: the longest divided by these
constexpr uint32_t kDepths[] = {0, 25, 50, 75, 100};  // percent
constexpr uint32_t kFacts = 3;                        // at each place, by default

struct Asked {
  bool found = true;
  uint32_t right = 0;  // tokens of the answer that were the most likely ones
  double nll = 0;      // mean over the answer's tokens, in nats
};

// Reads the answer token by token. The sequence's logits must be those of the answer's first token.
base::Result<Asked> ask(OneSequence& sequence, std::span<const engine::Token> answer) {
  Asked asked;
  for (const engine::Token token : answer) {
    const std::span<const float> logits = sequence.logits();
    const float most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - most);
    const float own = logits[static_cast<size_t>(token)];
    asked.nll += (most + std::log(sum) - own) / static_cast<double>(answer.size());
    asked.right += own == most;
    KVICK_TRY_VOID(sequence.read({&token, 1}));
  }
  asked.found = asked.right == answer.size();
  return asked;
}

class NeedleGrid final : public Experiment {
 public:
  explicit NeedleGrid(const Bench& bench)
      : bench_(bench), facts_(bench.prompts != 0 ? bench.prompts : kFacts) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(engine_, model_of(bench_, "needle"));
    KVICK_TRY(haystack_, text_of(bench_, "needle"));
    KVICK_TRY_VOID(choose_lengths());
    KVICK_TRY(const std::vector<Selected> policies, selections(bench_, {}, kBudgets));
    selected_ = {full_attention()};
    selected_.insert(selected_.end(), policies.begin(), policies.end());
    std::vector<Cell> cells;
    for (const Selected& one : selected_) {
      KVICK_TRY_VOID(check(*engine_, one));
      for (const uint32_t depth : kDepths)
        for (const uint32_t length : lengths_) {
          cells.push_back({.key = fmt::format("{} {} {} tokens, depth {}, facts {} {}",
                                              stem_of(bench_.model_path), one.label(), length,
                                              depth, facts_, stem_of(bench_.file)),
                           .what = {{"policy", one.label()},
                                    {"model", stem_of(bench_.model_path)},
                                    {"text", stem_of(bench_.file)},
                                    {"length", length},
                                    {"depth_percent", depth},
                                    {"facts", facts_}}});
        }
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    const auto one = std::find_if(selected_.begin(), selected_.end(), [&](const Selected& some) {
      return cell.what["policy"] == some.label();
    });
    const auto length = cell.what["length"].get<uint32_t>();
    const double depth = cell.what["depth_percent"].get<double>() / 100;
    Json found = Json::array();
    uint32_t count = 0;
    double right = 0, nll = 0;
    for (uint32_t fact = 0; fact < facts_; ++fact) {
      const Needle needle = needle_of(engine_->tokenizer(), fact);
      // Each fact uses another part of the text.
      const size_t from = haystack_.size() / facts_ * fact;
      KVICK_TRY(const std::vector<engine::Token> text,
                plant(engine_->tokenizer(), needle, haystack_,
                      {.length = length, .depth = depth, .from = from}));
      KVICK_TRY(OneSequence sequence, OneSequence::open(*engine_, options_of(*one, length)));
      KVICK_TRY_VOID(sequence.read_in_steps(text, engine::Session::kPrefillChunk));
      for (const engine::Token token : needle.question) KVICK_TRY_VOID(sequence.read({&token, 1}));
      KVICK_TRY(const Asked asked, ask(sequence, needle.answer));
      found.push_back(asked.found);
      count += asked.found;
      right += static_cast<double>(asked.right) / static_cast<double>(needle.answer.size());
      nll += asked.nll;
    }
    return Json{{"found", static_cast<double>(count) / facts_},
                {"tokens_right", right / facts_},
                {"nll", nll / facts_},
                {"by_fact", found}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {
        .title = fmt::format("{} facts at {} depths and {} lengths up to {} tokens: "
                             "those that are found",
                             facts_, std::size(kDepths), lengths_.size(), lengths_.back()),
        .columns = {"policy", "found %", "of those full attention finds %", "tokens of answers %",
                    "NLL of answers"},
        .rows = {}};
    Chart chart = chart_of();
    Json cases = Json::array();
    for (const std::string& policy : policies_of(all)) {
      const std::vector<const Measured*> places = places_of(all, policy);
      if (places.size() != std::size(kDepths) * lengths_.size()) continue;  // broken off
      Series series = {.name = policy, .points = {}};
      add_policy(all, places, table, cases, series);
      chart.series.push_back(std::move(series));
    }
    findings.summary = {{"policies", cases}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  base::Status<> choose_lengths() {
    KVICK_TRY(const uint32_t longest, context_of(bench_, *engine_, kLongest));
    lengths_.clear();
    for (const uint32_t part : kParts) {
      const auto room = check_room(longest / part);
      if (room.ok())
        lengths_.push_back(longest / part);
      else if (part == 1)
        return room.error();
      else
        bench_.note(fmt::format("needle: {}: left out", room.error().message));
    }
    return base::Done{};
  }

  // Error: a fact does not fit into `length` tokens, or the text is shorter than `length`.
  base::Status<> check_room(uint32_t length) const {
    for (uint32_t fact = 0; fact < facts_; ++fact)
      KVICK_TRY_VOID(plant(engine_->tokenizer(), needle_of(engine_->tokenizer(), fact), haystack_,
                           {.length = length, .depth = 0}));
    return base::Done{};
  }

  Chart chart_of() const {
    Chart chart = {.name = "needle",
                   .title = "Facts that are found, %",
                   .x_label = "tokens of the context",
                   .y_label = "depth of the fact, %",
                   .series = {},
                   .bars = {}};
    for (const uint32_t length : lengths_) chart.columns.push_back(std::to_string(length));
    for (const uint32_t depth : kDepths) chart.rows.push_back(std::to_string(depth));
    return chart;
  }

  // Returns the labels of all policies in the order of their first cells.
  static std::vector<std::string> policies_of(std::span<const Measured> all) {
    std::vector<std::string> policies;
    for (const Measured& one : all) {
      const auto policy = one.cell.what["policy"].get<std::string>();
      if (std::find(policies.begin(), policies.end(), policy) == policies.end())
        policies.push_back(policy);
    }
    return policies;
  }

  // Returns a policy's measured cells in the order of the chart: by depth, then by length.
  static std::vector<const Measured*> places_of(std::span<const Measured> all,
                                                const std::string& policy) {
    std::vector<const Measured*> places;
    for (const Measured& one : all)
      if (one.cell.what["policy"] == policy && !one.runs.empty()) places.push_back(&one);
    const auto place = [](const Measured* one) {
      return std::pair(one->cell.what["depth_percent"].get<uint32_t>(),
                       one->cell.what["length"].get<uint32_t>());
    };
    std::sort(places.begin(), places.end(),
              [&](const Measured* a, const Measured* b) { return place(a) < place(b); });
    return places;
  }

  // Returns the cell of full attention at the same depth and length.
  static const Measured* full_at(std::span<const Measured> all, const Measured& one) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const Measured& other) {
      return other.cell.what["policy"] == kFull &&
             other.cell.what["length"] == one.cell.what["length"] &&
             other.cell.what["depth_percent"] == one.cell.what["depth_percent"];
    });
    return at == all.end() ? nullptr : &*at;
  }

  // cells: of one policy, whose label the series has.
  void add_policy(std::span<const Measured> all, const std::vector<const Measured*>& cells,
                  Table& table, Json& cases, Series& series) const {
    uint32_t full = 0, both = 0;
    double found = 0, right = 0, nll = 0;
    for (const Measured* const cell : cells) {
      const Measured& one = *cell;
      found += one.median("found");
      right += one.median("tokens_right");
      nll += one.median("nll");
      series.points.push_back({0, one.median("found")});
      const Measured* exact = full_at(all, one);
      if (exact == nullptr || exact->runs.empty()) continue;
      for (uint32_t fact = 0; fact < facts_; ++fact) {
        if (exact->runs[0]["by_fact"][fact] != true) continue;
        ++full;
        both += one.runs[0]["by_fact"][fact] == true;
      }
    }
    const auto places = static_cast<double>(cells.size());
    const double share = full == 0 ? 0 : 100.0 * both / full;
    table.rows.push_back({series.name, fmt::format("{:.1f}", 100 * found / places),
                          full == 0 ? "-" : fmt::format("{:.1f}", share),
                          fmt::format("{:.1f}", 100 * right / places),
                          fmt::format("{:.3f}", nll / places)});
    cases.push_back({{"policy", series.name},
                     {"found_percent", 100 * found / places},
                     {"full_finds", full},
                     {"of_these_found", both},
                     {"answer_nll", nll / places}});
  }

  Bench bench_;
  uint32_t facts_;
  engine::Engine* engine_ = nullptr;
  std::vector<engine::Token> haystack_;
  std::vector<Selected> selected_;
  std::vector<uint32_t> lengths_;
};

}  // namespace

std::unique_ptr<Experiment> make_needle(const Bench& bench) {
  return std::make_unique<NeedleGrid>(bench);
}

}  // namespace kvick::lab
