// spec: what guessing ahead gains on real prompts, by category and by store ("Striking the Right
// Balance between Compute and Copy", Figures 12 and 13): tokens a pass over the weights, guesses
// that came true, and the speed of decoding against the same store without guesses.

#include <cmath>

#include "engine/session.h"
#include "lab/experiment.h"
#include "lab/prompts.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kAnswer = 64;   // tokens
constexpr uint32_t kPrompts = 10;  // of a category, unless --batch says how many

struct SpecCase {
  const char *kv, *spec;
};
constexpr SpecCase kCases[] = {
    {"virtual", "none"},    {"virtual", "lookup"}, {"virtual", "auto"},    {"bmc:r=64", "none"},
    {"bmc:r=64", "lookup"}, {"iterative", "none"}, {"iterative", "lookup"}};

class SpecBench final : public Experiment {
 public:
  explicit SpecBench(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    if (bench_.model_path.empty()) return base::fail("spec needs a model: -m MODEL");
    if (bench_.file.empty())
      return base::fail(
          "spec needs prompts: --file question.jsonl of Spec-Bench, or HumanEval.jsonl");
    KVICK_TRY(engine_, bench_.model(engine::Attention::kFused));
    const uint32_t most = bench_.batch != 0 ? bench_.batch : kPrompts;
    KVICK_TRY(prompts_, read_prompts(bench_.file, *engine_, most, kAnswer));
    std::vector<Cell> cells;
    for (const auto& [category, prompts] : prompts_.categories)
      for (const SpecCase& one : kCases)
        cells.push_back({.key = fmt::format("{} {} {}", category, one.kv, one.spec),
                         .what = {{"category", category},
                                  {"kv", one.kv},
                                  {"spec", one.spec},
                                  {"model", bench_.model_path},
                                  {"prompts", prompts.size()},
                                  {"tokens", kAnswer}}});
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(const engine::KvOptions kv,
              engine::parse_kv_options(cell.what["kv"].get<std::string>(), ""));
    KVICK_TRY(const engine::SpecOptions spec,
              engine::parse_spec_options(cell.what["spec"].get<std::string>()));
    KVICK_TRY(const std::unique_ptr<kv::Store> store, engine_->make_store(kv));
    engine::Session session(*engine_, *store);
    KVICK_TRY_VOID(session.speculate(spec));
    double seconds = 0;
    uint64_t tokens = 0, passes = 0, drafted = 0, accepted = 0, hash = 0;
    for (const auto& prompt : prompts_.categories[cell.what["category"].get<std::string>()]) {
      engine::Request request;
      request.prompt = prompt;
      request.max_tokens = kAnswer;
      request.sampling.temperature = 0;
      KVICK_TRY(const engine::Answer answer, session.generate(request));
      seconds += answer.decode_s;
      // The first token comes of the prompt; the model's end is a token too.
      const uint64_t written =
          answer.tokens.size() + (answer.finish == engine::Finish::kEnd ? 1 : 0) - 1;
      tokens += written;
      passes += written - answer.accepted;
      drafted += answer.drafted;
      accepted += answer.accepted;
      // FNV-1a: whether two ways gave the same answers.
      for (const engine::Token token : answer.tokens)
        hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3;
    }
    return Json{{"decode_s", seconds},  {"tokens", tokens},
                {"passes", passes},     {"drafted", drafted},
                {"accepted", accepted}, {"answers", fmt::format("{:x}", hash)}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Greedy answers of {} tokens; speed against the same store "
                                        "without guesses",
                                        kAnswer),
                   .columns = {"category", "kv", "spec", "tok/s", "tokens a pass", "accepted",
                               "speedup", "same answers"},
                   .rows = {}};
    Json rows = Json::array();
    Chart chart = {.name = "spec",
                   .title = "Decoding with guesses against decoding without",
                   .x_label = "category",
                   .y_label = "speed, 1: no guesses",
                   .series = {},
                   .bars = {},
                   .side_by_side = true};
    for (const Measured& one : all) {
      const Measured* plain = plain_of(all, one);
      if (plain == nullptr || one.runs.empty() || plain->runs.empty()) continue;
      add_row(one, *plain, table, rows);
      if (&one != plain) add_bar(one, rows.back()["speedup"].get<double>(), chart);
    }
    findings.summary = {{"cases", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  static const Measured* plain_of(std::span<const Measured> all, const Measured& one) {
    for (const Measured& other : all)
      if (other.cell.what["category"] == one.cell.what["category"] &&
          other.cell.what["kv"] == one.cell.what["kv"] && other.cell.what["spec"] == "none")
        return &other;
    return nullptr;
  }

  static void add_row(const Measured& one, const Measured& plain, Table& table, Json& rows) {
    const double tokens = one.median("tokens"), seconds = one.median("decode_s");
    const double per_pass = tokens / std::max(1.0, one.median("passes"));
    const double rate = one.median("accepted") / std::max(1.0, one.median("drafted"));
    const double speedup = plain.median("decode_s") / seconds;
    const bool same = one.runs[0]["answers"] == plain.runs[0]["answers"];
    const auto text = [&](const char* name) { return one.cell.what[name].get<std::string>(); };
    table.rows.push_back({text("category"), text("kv"), text("spec"),
                          fmt::format("{:.1f}", tokens / seconds), fmt::format("{:.2f}", per_pass),
                          fmt::format("{:.2f}", rate), fmt::format("{:.2f}", speedup),
                          same ? "yes" : "NO"});
    rows.push_back({{"category", text("category")},
                    {"kv", text("kv")},
                    {"spec", text("spec")},
                    {"tok_s", tokens / seconds},
                    {"tokens_per_pass", per_pass},
                    {"acceptance", rate},
                    {"speedup", speedup},
                    {"same_answers", same}});
  }

  static void add_bar(const Measured& one, double speedup, Chart& chart) {
    const auto category = one.cell.what["category"].get<std::string>();
    if (chart.bars.empty() || chart.bars.back() != category) chart.bars.push_back(category);
    const std::string name =
        one.cell.what["kv"].get<std::string>() + " " + one.cell.what["spec"].get<std::string>();
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const Series& other) { return other.name == name; });
    if (series == chart.series.end())
      series = chart.series.insert(series, {.name = name, .points = {}});
    series->points.push_back({0, speedup});
  }

  Bench bench_;
  engine::Engine* engine_ = nullptr;
  PromptSet prompts_;
};

}  // namespace

std::unique_ptr<Experiment> make_spec(const Bench& bench) {
  return std::make_unique<SpecBench>(bench);
}

}  // namespace kvick::lab
