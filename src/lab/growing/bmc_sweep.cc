// bmc-sweep: the time for a context of N tokens by the number of growths T, measured and predicted
// by BMC's model ("Striking the Right Balance between Compute and Copy", Figures 7 to 9).

#include <algorithm>
#include <cmath>
#include <map>

#include "kv/stores/growth_model.h"
#include "lab/data/shapes.h"
#include "lab/measure/growth_run.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kBatch = 8;  // as in the paper
constexpr uint32_t kTokens[] = {512, 1024, 2048, 4096, 8192};
constexpr uint32_t kMostGrowths = 512;
constexpr uint32_t kPieces = 64;
constexpr const char* kDefaultShapes[] = {"s", "m"};

class BmcSweep final : public Experiment {
 public:
  explicit BmcSweep(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(const std::vector<std::string> shapes, shapes_or(bench_.shapes, kDefaultShapes));
    if (bench_.tokens != 0 && bench_.tokens < kTokens[0])
      return base::fail("bmc-sweep measures contexts of {} tokens and more: give a --ctx of that",
                        kTokens[0]);
    std::vector<Cell> cells;
    for (const std::string& shape : shapes) {
      cells.push_back(cell(shape, 0, "rates"));
      for (const uint32_t tokens : kTokens) {
        if (bench_.tokens != 0 && tokens > bench_.tokens) continue;
        for (const char* spec : {"iterative", "virtual"})
          cells.push_back(cell(shape, tokens, spec));
        for (uint32_t growths = 1; growths <= std::min(tokens / 2, kMostGrowths); growths *= 2)
          cells.push_back(cell(shape, tokens, "bmc", growths));
      }
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    const auto spec = cell.what["strategy"].get<std::string>();
    const auto tokens = cell.what["tokens"].get<uint32_t>();
    const auto growths = cell.what["growths"].get<uint32_t>();
    GrowthRun run = {.config = config_of(shape, 1),
                     .spec = growths > 0 ? fmt::format("bmc:r={}", tokens / growths) : spec,
                     .tokens = tokens,
                     .batch = kBatch,
                     .piece = std::max(1U, tokens / std::max(kPieces, growths))};
    if (spec == "rates") return rates_of(run);
    KVICK_TRY(const GrowthCost cost, run_growth(bench_, run));
    return json_of(cost);
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {
        .title = "The number of growths that took least, and the model's",
        .columns = {"shape", "N", "T measured", "T fitted", "T model", "iterative / best",
                    "upfront / best", "best / virtual", "model's T / best"},
        .rows = {}};
    Json rows = Json::array();
    std::map<std::string, Chart> charts;
    Chart roots = {.name = "bmc-sweep-root",
                   .title = "Best number of growths by context",
                   .x_label = "tokens of the context N",
                   .y_label = "growths T",
                   .log_x = true,
                   .log_y = true,
                   .series = {},
                   .bars = {}};
    for (const Group& group : groups_of(all)) {
      if (group.times.empty()) continue;
      const uint32_t best = best_of(group);
      const uint32_t model = model_of(all, group);
      const double least = group.times.at(best);
      const auto ratio = [&](double other) { return fmt::format("{:.2f}", other / least); };
      const double at_model = group.times.contains(model) ? group.times.at(model) : 0;
      const double fitted = fitted_growths(group.times);
      table.rows.push_back({group.shape, std::to_string(group.tokens), std::to_string(best),
                            fmt::format("{:.1f}", fitted), std::to_string(model),
                            ratio(group.iterative), ratio(group.times.at(1)),
                            fmt::format("{:.2f}", least / group.virtual_s), ratio(at_model)});
      rows.push_back({{"shape", group.shape},
                      {"tokens", group.tokens},
                      {"best_growths", best},
                      {"fitted_growths", fitted},
                      {"model_growths", model},
                      {"iterative_over_best", group.iterative / least},
                      {"upfront_over_best", group.times.at(1) / least},
                      {"best_over_virtual", least / group.virtual_s},
                      {"at_model_over_best", at_model / least}});
      add_curve(group, charts[group.shape]);
      add_root(group, best, model, roots);
    }
    findings.summary = {{"contexts", rows}};
    findings.tables.push_back(std::move(table));
    for (auto& [shape, chart] : charts) findings.charts.push_back(std::move(chart));
    findings.charts.push_back(std::move(roots));
    return findings;
  }

 private:
  // One context of one shape.
  struct Group {
    std::string shape;
    uint32_t tokens = 0;
    std::map<uint32_t, double> times;  // seconds by growths
    double iterative = 0, virtual_s = 0;
  };

  static Cell cell(const std::string& shape, uint32_t tokens, const std::string& strategy,
                   uint32_t growths = 0) {
    return {.key = fmt::format("{} N={} {}{}", shape, tokens, strategy,
                               growths > 0 ? fmt::format(" T={}", growths) : ""),
            .what = {{"shape", shape},
                     {"tokens", tokens},
                     {"strategy", strategy},
                     {"growths", growths},
                     {"batch", kBatch},
                     {"layers", 1},
                     {"attention", "bmm"}}};
  }

  base::Result<Json> rates_of(GrowthRun run) {
    run.tokens = kTokens[std::size(kTokens) - 1];
    KVICK_TRY(const kv::GrowthRates rates, measure_rates(bench_, run));
    return Json{{"copy_bytes_s", rates.copy_bytes_s},
                {"growth_s", rates.growth_s},
                {"attention_bytes_s", rates.attention_bytes_s}};
  }

  static std::vector<Group> groups_of(std::span<const Measured> all) {
    std::vector<Group> groups;
    for (const Measured& one : all) {
      const auto shape = one.cell.what["shape"].get<std::string>();
      const auto tokens = one.cell.what["tokens"].get<uint32_t>();
      if (tokens == 0) continue;
      if (groups.empty() || groups.back().shape != shape || groups.back().tokens != tokens)
        groups.push_back({.shape = shape, .tokens = tokens, .times = {}});
      const auto strategy = one.cell.what["strategy"].get<std::string>();
      const double seconds = one.median("all_s");
      if (strategy == "iterative") groups.back().iterative = seconds;
      if (strategy == "virtual") groups.back().virtual_s = seconds;
      if (strategy == "bmc")
        groups.back().times[one.cell.what["growths"].get<uint32_t>()] = seconds;
    }
    return groups;
  }

  // Near its minimum the curve is flat, so which T is the fastest is noise. Returns the minimum of
  // the model's own form, a + b T + c / T, fitted to all times (relative least squares); 0: the fit
  // has no minimum.
  static double fitted_growths(const std::map<uint32_t, double>& times) {
    double sums[3][4] = {};
    for (const auto& [growths, seconds] : times) {
      const double t = growths, terms[4] = {1 / seconds, t / seconds, 1 / t / seconds, 1};
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 4; ++j) sums[i][j] += terms[i] * terms[j];
    }
    for (int i = 0; i < 3; ++i) {  // Gauss; the matrix is positive definite
      for (int j = i + 1; j < 4; ++j) sums[i][j] /= sums[i][i];
      for (int k = 0; k < 3; ++k)
        for (int j = i + 1; k != i && j < 4; ++j) sums[k][j] -= sums[k][i] * sums[i][j];
    }
    const double per_growth = sums[1][3], per_spare = sums[2][3];
    return per_growth > 0 && per_spare > 0 ? std::sqrt(per_spare / per_growth) : 0;
  }

  static uint32_t best_of(const Group& group) {
    return std::min_element(group.times.begin(), group.times.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  uint32_t model_of(std::span<const Measured> all, const Group& group) const {
    for (const Measured& one : all) {
      if (one.cell.key != cell(group.shape, 0, "rates").key) continue;
      const kv::GrowthRates rates = {.copy_bytes_s = one.median("copy_bytes_s"),
                                     .growth_s = one.median("growth_s"),
                                     .attention_bytes_s = one.median("attention_bytes_s")};
      GrowthRun run = {.config = config_of(shape_named(group.shape).value(), 1)};
      run.tokens = group.tokens;
      return kv::best_growths(group.tokens, setup_of(bench_, run).shape.token_bytes(), rates);
    }
    return 0;
  }

  static void add_curve(const Group& group, Chart& chart) {
    chart.name = "bmc-sweep-" + group.shape;
    chart.title = "Attention of one layer, shape " + group.shape + ", by number of growths";
    chart.x_label = "growths T (1: upfront)";
    chart.y_label = "time against the best T";
    chart.log_x = chart.log_y = true;
    Series series = {.name = fmt::format("N = {}", group.tokens), .points = {}};
    const double least = group.times.at(best_of(group));
    for (const auto& [growths, seconds] : group.times)
      series.points.push_back({static_cast<double>(growths), seconds / least});
    chart.series.push_back(std::move(series));
  }

  static void add_root(const Group& group, uint32_t best, uint32_t model, Chart& chart) {
    for (const bool predicted : {false, true}) {
      const std::string name = group.shape + (predicted ? ", model" : ", measured");
      auto found = std::find_if(chart.series.begin(), chart.series.end(),
                                [&](const Series& series) { return series.name == name; });
      if (found == chart.series.end())
        found = chart.series.insert(found, {.name = name, .points = {}, .dashed = predicted});
      found->points.push_back(
          {static_cast<double>(group.tokens), static_cast<double>(predicted ? model : best)});
    }
  }

  Bench bench_;
};

}  // namespace

std::unique_ptr<Experiment> make_bmc_sweep(const Bench& bench) {
  return std::make_unique<BmcSweep>(bench);
}

}  // namespace kvick::lab
