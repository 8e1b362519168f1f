// spec-sweep: attention's time for a context whose steps verify k rows and keep m, by the number of
// growths T, measured and predicted by BMC's model ("Striking the Right Balance between Compute and
// Copy", section VI-B and Table I).

#include <algorithm>
#include <map>

#include "kv/stores/growth_model.h"
#include "lab/data/shapes.h"
#include "lab/measure/growth_run.h"
#include "plan/forecast/growth_rates.h"

namespace kvick::lab {
namespace {

// The values of Table I.
constexpr uint32_t kRows = 26, kKept = 4, kTokens = 4096;
constexpr uint32_t kGrowths[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr const char* kDefaultShapes[] = {"s"};
// At most this many steps between two growths are timed; the others count with their mean.
constexpr uint32_t kTimed = 4;

class SpecSweep final : public Experiment {
 public:
  explicit SpecSweep(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(const std::vector<std::string> shapes, shapes_or(bench_.shapes, kDefaultShapes));
    std::vector<Cell> cells;
    for (const std::string& shape : shapes) {
      cells.push_back(cell(shape, 0));
      for (const uint32_t growths : kGrowths) cells.push_back(cell(shape, growths));
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    const auto growths = cell.what["growths"].get<uint32_t>();
    const GrowthRun run = {.config = config_of(shape, 1),
                           .spec = fmt::format("bmc:r={}", kTokens / std::max(growths, 1U)),
                           .tokens = kTokens};
    if (growths == 0) return rates_of(run);
    return sweep(run);
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Attention of one layer, N = {}: {} rows verified and {} "
                                        "kept a step, never more than the spare rows; 1: upfront",
                                        kTokens, kRows, kKept),
                   .columns = {"shape", "T", "time", "rows a step", "T model"},
                   .rows = {}};
    Chart chart = {.name = "spec-sweep",
                   .title = "Attention with drafts, by number of growths",
                   .x_label = "growths T (1: upfront)",
                   .y_label = "time against upfront",
                   .log_x = true,
                   .log_y = true,
                   .series = {},
                   .bars = {}};
    Json rows = Json::array();
    std::map<std::string, double> upfront;
    std::map<std::string, uint32_t> model;
    for (const Measured& one : all) {
      const auto shape = one.cell.what["shape"].get<std::string>();
      const auto growths = one.cell.what["growths"].get<uint32_t>();
      if (growths == 0) {
        model[shape] = model_of(one);
        chart.series.push_back({.name = shape, .points = {}});
        continue;
      }
      const double seconds = one.median("all_s");
      if (growths == 1) upfront[shape] = seconds;
      const double ratio = seconds / upfront[shape];
      table.rows.push_back({shape, std::to_string(growths), fmt::format("{:.2f}", ratio),
                            fmt::format("{:.1f}", one.median("mean_rows")),
                            std::to_string(model[shape])});
      rows.push_back({{"shape", shape},
                      {"growths", growths},
                      {"against_upfront", ratio},
                      {"mean_rows", one.median("mean_rows")},
                      {"model_growths", model[shape]}});
      chart.series.back().points.push_back({static_cast<double>(growths), ratio});
    }
    findings.summary = {{"sweep", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  static Cell cell(const std::string& shape, uint32_t growths) {
    return {.key = growths == 0 ? shape + " rates" : fmt::format("{} T={}", shape, growths),
            .what = {{"shape", shape},
                     {"growths", growths},
                     {"tokens", kTokens},
                     {"k", kRows},
                     {"m", kKept},
                     {"layers", 1},
                     {"attention", "bmm"}}};
  }

  base::Result<Json> rates_of(const GrowthRun& run) {
    kernels::BucketAttention library;
    model::Workspace workspace(bench_.pool, bench_.kernels);
    workspace.library = &library;
    KVICK_TRY(const kv::GrowthRates rates,
              plan::measure_growth(run.config, setup_of(bench_, run), workspace,
                                   base::steady_seconds, kRows));
    return Json{{"copy_bytes_s", rates.copy_bytes_s},
                {"growth_s", rates.growth_s},
                {"attention_bytes_s", rates.attention_bytes_s}};
  }

  // Measures one context. Steps of equal buckets and rows take the same time: after the first few
  // of a bucket the others are only filled in, and count with the mean of those.
  base::Result<Json> sweep(const GrowthRun& run) {
    KVICK_TRY(const kv::Spec spec, kv::parse_spec(run.spec));
    KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(spec, setup_of(bench_, run)));
    kernels::BucketAttention library;
    model::Workspace workspace(bench_.pool, bench_.kernels);
    workspace.library = &library;
    plan::AttentionBlock block(run.config, *store, workspace);
    const kv::SeqId seq = store->open({}).seq;
    double all_s = 0, rows = 0, steps = 0;
    std::map<uint32_t, std::pair<double, uint32_t>> seen;  // seconds and count, by rows of a step
    uint32_t bucket = 0;
    while (store->length(seq) < run.tokens) {
      const uint32_t length = store->length(seq), spare = kv::spare_rows(*store, seq);
      const bool grows = length + spare != bucket;
      if (grows) seen.clear();
      bucket = length + spare;
      const uint32_t fresh = std::min(kRows, spare), kept = std::min(kKept, fresh);
      auto& [seconds, times] = seen[fresh];
      double mine = times > 0 ? seconds / times : 0;
      if (grows || times < kTimed) {
        const auto compiled = library.compiled().seconds;
        plan::BlockSeconds step;
        if (auto done = block.step({&seq, 1}, fresh, step, false); !done.ok())
          return base::fail("{} at {} tokens: {}", run.spec, length, done.error().what);
        mine = step.all() + library.compiled().seconds - compiled;
        // The first step of a bucket grows and counts only for itself.
        if (!grows) seconds += mine, ++times;
      }
      if (auto done = block.fill({&seq, 1}, kept); !done.ok())
        return base::fail("{} at {} tokens: {}", run.spec, length, done.error().what);
      all_s += mine;
      rows += fresh;
      ++steps;
    }
    return Json{{"all_s", all_s}, {"mean_rows", rows / steps}};
  }

  uint32_t model_of(const Measured& rates) const {
    const GrowthRun run = {
        .config = config_of(shape_named(rates.cell.what["shape"].get<std::string>()).value(), 1),
        .spec = {},
        .tokens = kTokens};
    return kv::best_growths(kTokens, setup_of(bench_, run).shape.token_bytes(),
                            {.copy_bytes_s = rates.median("copy_bytes_s"),
                             .growth_s = rates.median("growth_s"),
                             .attention_bytes_s = rates.median("attention_bytes_s")},
                            kKept);
  }

  Bench bench_;
};

}  // namespace

std::unique_ptr<Experiment> make_spec_sweep(const Bench& bench) {
  return std::make_unique<SpecSweep>(bench);
}

}  // namespace kvick::lab
