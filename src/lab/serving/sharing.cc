// sharing: the memory of several answers to one prompt, sampled or found by beam search: with rows
// shared until they differ, and with separate copies (PagedAttention's Figure 15).

#include "lab/measure/replay.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kPrompt = 512, kAnswer = 128;
struct Answers {
  const char* name;
  uint32_t choices, beams;
};
constexpr Answers kAnswers[] = {{"n=2", 2, 0},          {"n=4", 4, 0},
                                {"n=6", 6, 0},          {"beam width 2", 1, 2},
                                {"beam width 4", 1, 4}, {"beam width 6", 1, 6}};
constexpr const char* kShared[] = {"paged:block=16", "paged", "virtual"};
// Its forks are copies.
constexpr const char* kAlone = "bmc:r=16";

class Sharing final : public Experiment {
 public:
  explicit Sharing(const Bench& bench)
      : bench_(bench),
        prompt_(bench.prompt != 0 ? bench.prompt : kPrompt),
        answer_(bench.answer != 0 ? bench.answer : kAnswer) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY_VOID(require_model(bench_, "sharing"));
    std::vector<Cell> cells;
    for (const Answers& way : kAnswers) {
      cells.push_back(cell_of(way, kAlone));
      for (const char* spec : kShared) cells.push_back(cell_of(way, spec));
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(engine::Engine * engine, bench_.model(engine::Attention::kFused));
    engine::SchedulerOptions options;
    KVICK_TRY(options.kv, engine::parse_kv_options(cell.what["strategy"].get<std::string>(), ""));
    options.kv.max_tokens = prompt_ + answer_;
    const ReplayJob job = {.prompt = prompt_,
                           .answer = answer_,
                           .choices = cell.what["choices"].get<uint32_t>(),
                           .beams = cell.what["beams"].get<uint32_t>()};
    KVICK_TRY(const Replayed run, replay(*engine, options, {&job, 1}));
    return Json{{"seconds", run.seconds}, {"peak_bytes", run.peak_bytes}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Most memory of one job, {} + {} tokens, rows of f16; {} "
                                        "copies what it forks",
                                        prompt_, answer_, kAlone),
                   .columns = {"answers", "strategy", "peak MB", "saved %", "seconds"},
                   .rows = {}};
    Chart chart = {.name = "sharing",
                   .title = "Memory saved by rows that are shared until they differ",
                   .x_label = "answers",
                   .y_label = "% of the memory of copies",
                   .series = {{.name = "paged:block=16", .points = {}}},
                   .bars = {}};
    Json rows = Json::array();
    for (const Answers& way : kAnswers) {
      double alone = 0;
      for (const Measured* one : matching(all, {{"answers", way.name}})) {
        const auto strategy = one->cell.what["strategy"].get<std::string>();
        const double peak = one->median("peak_bytes");
        if (strategy == kAlone) alone = peak;
        const double saved = alone > 0 ? 1 - peak / alone : 0;
        table.rows.push_back({way.name, strategy, fmt::format("{:.1f}", peak / 1e6),
                              fmt::format("{:.1f}", 100 * saved),
                              fmt::format("{:.3f}", one->median("seconds"))});
        rows.push_back({{"answers", way.name},
                        {"strategy", strategy},
                        {"peak_bytes", peak},
                        {"saved", saved}});
        if (strategy != kShared[0]) continue;
        chart.bars.push_back(way.name);
        chart.series[0].points.push_back({static_cast<double>(chart.bars.size()), 100 * saved});
      }
    }
    findings.summary = {{"prompt", prompt_}, {"answer", answer_}, {"cells", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  static Cell cell_of(const Answers& way, const char* spec) {
    return {.key = fmt::format("{} {}", way.name, spec),
            .what = {{"answers", way.name},
                     {"choices", way.choices},
                     {"beams", way.beams},
                     {"strategy", spec}}};
  }

  Bench bench_;
  uint32_t prompt_, answer_;  // tokens
};

}  // namespace

std::unique_ptr<Experiment> make_sharing(const Bench& bench) {
  return std::make_unique<Sharing>(bench);
}

}  // namespace kvick::lab
