// breakdown: the parts of attention's time under each strategy: growing, writing, computing,
// compiling (BMC's Tables IV and VII, Figures 4 and 10 for one layer).

#include <map>

#include "kv/stores/growth_model.h"
#include "lab/data/shapes.h"
#include "lab/measure/growth_run.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kBatch = 8, kTokens = 1024, kPieces = 64;
constexpr const char* kDefaultShapes[] = {"opt-13b", "s", "m", "l7"};

constexpr Way kWays[] = {{"iterative", "bmm"}, {"upfront", "bmm"},    {"bmc", "bmm"},
                         {"virtual", "bmm"},   {"virtual", "fused"},  {"paged", "fused"},
                         {"bmc", "fused"},     {"iterative", "fused"}};

class Breakdown final : public Experiment {
 public:
  explicit Breakdown(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(const std::vector<std::string> shapes, shapes_or(bench_.shapes, kDefaultShapes));
    std::vector<Cell> cells;
    for (const std::string& shape : shapes) {
      for (const Way& way : kWays)
        cells.push_back({.key = fmt::format("{} {} {}", shape, way.spec, way.attention),
                         .what = {{"shape", shape},
                                  {"strategy", way.spec},
                                  {"attention", way.attention},
                                  {"tokens", kTokens},
                                  {"batch", kBatch},
                                  {"layers", 1}}});
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    const auto strategy = cell.what["strategy"].get<std::string>();
    GrowthRun run = {.config = config_of(shape, 1),
                     .spec = strategy,
                     .attention = cell.what["attention"] == "bmm" ? engine::Attention::kBmm
                                                                  : engine::Attention::kFused,
                     .tokens = kTokens,
                     .batch = kBatch,
                     .piece = kTokens / kPieces};
    uint32_t growths = 0;
    if (strategy == "bmc") {
      KVICK_TRY(growths, growths_for(shape, run));
      run.spec = fmt::format("bmc:r={}", kTokens / growths);
      run.piece = std::min(run.piece, kTokens / growths);
    }
    KVICK_TRY(const GrowthCost cost, run_growth(bench_, run));
    Json json = json_of(cost);
    if (growths > 0) json["growths"] = growths;
    return json;
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    std::map<std::string, double> iterative, upfront;
    for (const Measured& one : all) {
      if (one.cell.what["attention"] != "bmm") continue;
      const auto shape = one.cell.what["shape"].get<std::string>();
      if (one.cell.what["strategy"] == "iterative") iterative[shape] = one.median("all_s");
      if (one.cell.what["strategy"] == "upfront") upfront[shape] = one.median("all_s");
    }
    Table table = {
        .title = fmt::format("Seconds of one layer, {} sequences of {} tokens", kBatch, kTokens),
        .columns = {"shape", "strategy", "attention", "growing", "writing", "computing",
                    "compiling", "all", "iterative / it", "upfront / it"},
        .rows = {}};
    Json rows = Json::array();
    std::map<std::string, Chart> charts;
    for (const Measured& one : all) {
      const auto text = [&](const char* field) { return one.cell.what[field].get<std::string>(); };
      const double seconds = one.median("all_s");
      const auto number = [&](const char* field) {
        return fmt::format("{:.3f}", one.median(field));
      };
      const double over_iterative = iterative[text("shape")] / seconds;
      const double over_upfront = upfront[text("shape")] / seconds;
      table.rows.push_back({text("shape"), text("strategy"), text("attention"), number("begin_s"),
                            number("write_s"), number("attend_s"), number("compile_s"),
                            number("all_s"), fmt::format("{:.2f}", over_iterative),
                            fmt::format("{:.2f}", over_upfront)});
      rows.push_back({{"shape", text("shape")},
                      {"strategy", text("strategy")},
                      {"attention", text("attention")},
                      {"all_s", seconds},
                      {"faster_than_iterative", over_iterative},
                      {"faster_than_upfront", over_upfront}});
      add_bar(one, charts[text("shape")]);
    }
    findings.summary = {{"ways", rows}};
    findings.tables.push_back(std::move(table));
    for (auto& [shape, chart] : charts) {
      chart.name = "breakdown-" + shape;
      chart.title = "Where the time of one layer goes, shape " + shape;
      chart.y_label = "seconds";
      findings.charts.push_back(std::move(chart));
    }
    return findings;
  }

 private:
  static void add_bar(const Measured& one, Chart& chart) {
    constexpr std::pair<const char*, const char*> kParts[] = {{"computing", "attend_s"},
                                                              {"writing", "write_s"},
                                                              {"growing", "begin_s"},
                                                              {"compiling", "compile_s"}};
    if (chart.series.empty())
      for (const auto& [name, field] : kParts) chart.series.push_back({.name = name, .points = {}});
    const auto strategy = one.cell.what["strategy"].get<std::string>();
    chart.bars.push_back(one.cell.what["attention"] == "bmm" ? strategy : strategy + "*");
    chart.x_label = "strategy (*: fused attention, else bmm)";
    for (size_t i = 0; i < chart.series.size(); ++i)
      chart.series[i].points.push_back(
          {static_cast<double>(chart.bars.size()), one.median(kParts[i].second)});
  }

  // Returns the model's number of growths, from rates that are measured once per shape. Fused
  // attention uses the same number, so both are compared with the same copies.
  base::Result<uint32_t> growths_for(const NamedShape& shape, const GrowthRun& run) {
    uint32_t& growths = growths_[std::string(shape.name)];
    if (growths > 0) return growths;
    KVICK_TRY(const kv::GrowthRates rates, measure_rates(bench_, run));
    growths = kv::best_growths(run.tokens, setup_of(bench_, run).shape.token_bytes(), rates);
    return growths;
  }

  Bench bench_;
  std::map<std::string, uint32_t> growths_;
};

}  // namespace

std::unique_ptr<Experiment> make_breakdown(const Bench& bench) {
  return std::make_unique<Breakdown>(bench);
}

}  // namespace kvick::lab
