// spec: what draft tokens gain on real prompts, by category and by store ("Striking the Right
// Balance between Compute and Copy", Figures 12 and 13): tokens per pass over the weights, accepted
// draft tokens, and decode speed relative to the same store without draft tokens. All answers are
// compared token by token with those of the first case with rows of the same type. Rounds alternate
// between the cases; a speedup is the median of the speedups of each round.

#include <algorithm>
#include <cmath>

#include "engine/eval/answer_prompts.h"
#include "engine/eval/speed.h"
#include "lab/core/experiment.h"
#include "lab/data/prompts.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kAnswer = 64;   // tokens, unless --answer gives a number
constexpr uint32_t kPrompts = 10;  // per category, unless --prompts gives a number

struct SpecCase {
  std::string kv, type, spec;
};
const SpecCase kCases[] = {{"virtual", "", "none"},
                           {"virtual", "", "lookup"},
                           {"virtual", "", "auto"},
                           {"bmc:r=64", "", "none"},
                           {"bmc:r=64", "", "lookup:gain=off"},
                           {"iterative", "", "none"},
                           // gain=off and grow=on make it draft like the other stores; else nothing
                           // could be compared.
                           {"iterative", "", "lookup:gain=off,grow=on"}};

// Returns the user's stores, types and draft methods in all combinations, each also without draft
// tokens; or the default cases if the user gave none.
std::vector<SpecCase> cases_of(const Bench& bench) {
  if (bench.stores.empty() && bench.types.empty() && bench.specs.empty())
    return {std::begin(kCases), std::end(kCases)};
  const auto or_else = [](const std::vector<std::string>& given,
                          std::vector<std::string> standard) {
    return given.empty() ? standard : given;
  };
  std::vector<SpecCase> cases;
  for (const std::string& type : or_else(bench.types, {""}))
    for (const std::string& kv : or_else(bench.stores, {"virtual"})) {
      cases.push_back({kv, type, "none"});
      for (const std::string& spec : or_else(bench.specs, {"lookup", "auto"}))
        if (spec != "none") cases.push_back({kv, type, spec});
    }
  return cases;
}

// Returns the FNV-1a hash of an answer's tokens.
std::string hash_of(std::span<const engine::Token> tokens) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const engine::Token token : tokens)
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3;
  return fmt::format("{:x}", hash);
}

class SpecBench final : public Experiment {
 public:
  explicit SpecBench(const Bench& bench)
      : bench_(bench),
        parallel_(bench.batch != 0 ? bench.batch : 1),
        answer_(bench.answer != 0 ? bench.answer : kAnswer) {}

  base::Result<std::vector<Cell>> cells() override {
    if (bench_.model_path.empty()) return base::fail("spec needs a model: -m MODEL");
    if (bench_.file.empty())
      return base::fail(
          "spec needs prompts: --file question.jsonl of Spec-Bench, or HumanEval.jsonl");
    KVICK_TRY(engine_, bench_.model(engine::Attention::kFused));
    const uint32_t most = bench_.prompts != 0 ? bench_.prompts : kPrompts;
    KVICK_TRY(prompts_, read_prompts(bench_.file, *engine_, most, answer_));
    std::vector<Cell> cells;
    for (const auto& [category, prompts] : prompts_.categories)
      for (const SpecCase& one : cases_of(bench_)) {
        KVICK_TRY_VOID(options_of(one));
        cells.push_back({.key = fmt::format("{} {} {}{}", category, cache_of(one.kv, one.type),
                                            one.spec, form()),
                         .what = {{"category", category},
                                  {"kv", one.kv},
                                  {"type", one.type},
                                  {"spec", one.spec},
                                  {"model", bench_.model_path},
                                  {"prompts", prompts.size()},
                                  {"at_once", parallel_},
                                  {"tokens", answer_}}});
      }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(engine::AnswerOptions options,
              options_of({.kv = cell.what["kv"].get<std::string>(),
                          .type = cell.what["type"].get<std::string>(),
                          .spec = cell.what["spec"].get<std::string>()}));
    const auto& prompts = prompts_.categories[cell.what["category"].get<std::string>()];
    KVICK_TRY(const engine::Answered all, engine::answer_prompts(*engine_, prompts, options));
    Json answers = Json::array();
    for (const auto& answer : all.answers) answers.push_back(hash_of(answer));
    return Json{{"decode_s", all.seconds},
                {"tokens", all.tokens},
                {"tokens_a_pass", all.tokens_per_pass()},
                {"drafted", all.drafted},
                {"accepted", all.accepted},
                {"answers", answers}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Greedy answers of {} tokens, {} at once; speed against "
                                        "the same store without drafts",
                                        answer_, parallel_),
                   .columns = {"category", "kv", "spec", "tok/s", "tokens a pass", "accepted",
                               "speedup", "by round", "same answers"},
                   .rows = {}};
    Json rows = Json::array();
    Chart chart = {.name = "spec",
                   .title = "Decoding with drafts against decoding without",
                   .x_label = "category",
                   .y_label = "speed, 1: no drafts",
                   .series = {},
                   .bars = {},
                   .side_by_side = true};
    size_t differ = 0;
    for (const Measured& one : all) {
      const Measured* plain = plain_of(all, one);
      if (plain == nullptr || one.runs.empty() || plain->runs.empty()) continue;
      differ += add_row(one, *plain, first_of(all, one), table, rows);
      if (&one != plain) add_bar(one, rows.back()["speedup"].get<double>(), chart);
    }
    findings.summary = {{"different_answers", differ}, {"cases", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  base::Result<engine::AnswerOptions> options_of(const SpecCase& one) const {
    engine::AnswerOptions options;
    const auto named = kv::parse_spec(one.kv);
    const bool tiered = named.ok() && named->name == "tiered";
    KVICK_TRY(options.kv, engine::parse_kv_options(one.kv, one.type, tiered ? bench_.tier : ""));
    KVICK_TRY(options.spec, engine::parse_spec_options(one.spec));
    options.tokens = answer_;
    options.parallel = parallel_;
    return options;
  }

  // Returns the options that distinguish cells of several calls in one folder.
  std::string form() const {
    std::string text;
    if (parallel_ != 1) text += fmt::format(", {} at once", parallel_);
    if (answer_ != kAnswer) text += fmt::format(", {} tokens", answer_);
    return text;
  }

  static std::string cache_of(const std::string& kv, const std::string& type) {
    return type.empty() ? kv : kv + " " + type;
  }
  static std::string cache_of(const Measured& one) {
    return cache_of(one.cell.what["kv"].get<std::string>(),
                    one.cell.what["type"].get<std::string>());
  }

  static const Measured* plain_of(std::span<const Measured> all, const Measured& one) {
    for (const Measured* other : matching(all, {{"category", one.cell.what["category"]},
                                                {"kv", one.cell.what["kv"]},
                                                {"type", one.cell.what["type"]},
                                                {"spec", "none"}}))
      return other;
    return nullptr;
  }

  static const Measured& first_of(std::span<const Measured> all, const Measured& one) {
    return *matching(all,
                     {{"category", one.cell.what["category"]}, {"type", one.cell.what["type"]}})
                .front();
  }

  static double speed_of(const Json& run) {
    return run["tokens"].get<double>() / run["decode_s"].get<double>();
  }
  // Returns the speedup of each round, sorted. Cells without draft tokens are compared with their
  // previous round, which shows the noise.
  static std::vector<double> speedups(const Measured& one, const Measured& plain) {
    std::vector<double> ratios;
    const size_t lag = &one == &plain ? 1 : 0;
    for (size_t i = lag; i < std::min(one.runs.size(), plain.runs.size()); ++i)
      ratios.push_back(speed_of(one.runs[i]) / speed_of(plain.runs[i - lag]));
    std::sort(ratios.begin(), ratios.end());
    return ratios;
  }

  // Counts the answers, over all runs, that differ from those of the first case.
  static size_t different(const Measured& one, const Measured& first) {
    size_t differ = 0;
    if (first.runs.empty()) return one.runs.size();
    const Json& right = first.runs[0]["answers"];
    for (const Json& run : one.runs) {
      const Json& answers = run["answers"];
      const size_t both = std::min(answers.size(), right.size());
      differ += std::max(answers.size(), right.size()) - both;
      for (size_t i = 0; i < both; ++i) differ += answers[i] == right[i] ? 0 : 1;
    }
    return differ;
  }

  static size_t add_row(const Measured& one, const Measured& plain, const Measured& first,
                        Table& table, Json& rows) {
    const double speed = one.median("tokens") / one.median("decode_s");
    const std::vector<double> ratios = speedups(one, plain);
    const double speedup = &one == &plain ? 1 : engine::median(ratios);
    const std::string range =
        ratios.empty() ? "" : fmt::format("{:.2f} to {:.2f}", ratios.front(), ratios.back());
    const double rate = one.median("accepted") / std::max(1.0, one.median("drafted"));
    const size_t differ = different(one, first);
    const auto text = [&](const char* name) { return one.cell.what[name].get<std::string>(); };
    table.rows.push_back({text("category"), cache_of(one), text("spec"),
                          fmt::format("{:.1f}", speed),
                          fmt::format("{:.2f}", one.median("tokens_a_pass")),
                          fmt::format("{:.2f}", rate), fmt::format("{:.2f}", speedup), range,
                          differ == 0 ? "yes" : fmt::format("{} DIFFER", differ)});
    rows.push_back({{"category", text("category")},
                    {"kv", text("kv")},
                    {"type", text("type")},
                    {"spec", text("spec")},
                    {"tok_s", speed},
                    {"tokens_per_pass", one.median("tokens_a_pass")},
                    {"acceptance", rate},
                    {"speedup", speedup},
                    {"speedups", ratios},
                    {"different_answers", differ}});
    return differ;
  }

  static void add_bar(const Measured& one, double speedup, Chart& chart) {
    const auto category = one.cell.what["category"].get<std::string>();
    if (chart.bars.empty() || chart.bars.back() != category) chart.bars.push_back(category);
    const std::string name = cache_of(one) + " " + one.cell.what["spec"].get<std::string>();
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const Series& other) { return other.name == name; });
    if (series == chart.series.end())
      series = chart.series.insert(series, {.name = name, .points = {}});
    series->points.push_back({0, speedup});
  }

  Bench bench_;
  uint32_t parallel_;
  uint32_t answer_;
  engine::Engine* engine_ = nullptr;
  PromptSet prompts_;
};

}  // namespace

std::unique_ptr<Experiment> make_spec(const Bench& bench) {
  return std::make_unique<SpecBench>(bench);
}

}  // namespace kvick::lab
