// paged-vs-contiguous: the attention of one token over rows in blocks against contiguous rows, by
// kvick's kernels (BMC's Table VII, PagedAttention's section 7.1).

#include <map>

#include "lab/data/shapes.h"
#include "lab/measure/growth_run.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kDepths[] = {512, 2048, 8192};
// Contiguous rows in pages of 4 KiB (virtual) and in pages of 2 MiB where the system has them
// (upfront); blocks use the latter, too.
constexpr const char* kSpecs[] = {"virtual",        "upfront",        "paged:block=8",
                                  "paged:block=16", "paged:block=32", "paged:block=64",
                                  "paged:block=128"};
constexpr const char* kDefaultShapes[] = {"s", "m"};
constexpr uint64_t kMostBytes = uint64_t{512} << 20;
constexpr int kSteps = 24;  // timed steps, after one untimed step

class PagedVsContiguous final : public Experiment {
 public:
  explicit PagedVsContiguous(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(const std::vector<std::string> shapes, shapes_or(bench_.shapes, kDefaultShapes));
    std::vector<Cell> cells;
    for (const std::string& shape : shapes) {
      for (const uint32_t depth : kDepths)
        for (const char* spec : kSpecs)
          cells.push_back(
              {.key = fmt::format("{} {} {}", shape, depth, spec),
               .what = {
                   {"shape", shape}, {"depth", depth}, {"strategy", spec}, {"kv_type", "f16"}}});
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    const auto depth = cell.what["depth"].get<uint32_t>();
    GrowthRun run = {.config = config_of(shape, shape.layers), .spec = {}, .tokens = depth + 1};
    kv::Setup setup = setup_of(bench_, run);
    setup.shape.k_type = setup.shape.v_type = kernels::DType::kF16;
    const uint64_t layer = setup.shape.token_bytes() / shape.layers * depth;
    setup.shape.layers =
        static_cast<uint32_t>(std::clamp<uint64_t>(kMostBytes / layer, 1, shape.layers));
    run.config.layers.resize(setup.shape.layers);
    KVICK_TRY(const kv::Spec spec, kv::parse_spec(cell.what["strategy"].get<std::string>()));
    KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(spec, setup));
    model::Workspace workspace(bench_.pool, bench_.kernels);
    plan::AttentionBlock block(run.config, *store, workspace);
    const kv::SeqId seq = store->open({}).seq;
    plan::BlockSeconds warm, timed;
    auto done = block.fill({&seq, 1}, depth);
    if (done.ok()) done = block.step({&seq, 1}, 1, warm, false);
    for (int i = 0; i < kSteps && done.ok(); ++i) done = block.step({&seq, 1}, 1, timed, false);
    if (!done.ok()) return base::fail("{}: {}", cell.key, done.error().what);
    const double seconds = timed.attend / kSteps;
    return Json{{"attend_s", seconds},
                {"layers", run.config.layer_count()},
                {"bytes_s", static_cast<double>(setup.shape.token_bytes() * depth) / seconds}};
  }

  Findings findings(std::span<const Measured> all) override {
    std::map<std::string, double> contiguous;
    for (const Measured& one : all)
      if (one.cell.what["strategy"] == "virtual")
        contiguous[place_of(one)] = one.median("attend_s");
    Findings findings;
    Table table = {.title = "Attention of one token, float16 rows",
                   .columns = {"shape", "depth", "strategy", "GB/s", "speed against contiguous"},
                   .rows = {}};
    std::map<std::string, Chart> charts;
    Json rows = Json::array();
    for (const Measured& one : all) {
      const auto strategy = one.cell.what["strategy"].get<std::string>();
      const auto shape = one.cell.what["shape"].get<std::string>();
      const double speed = contiguous[place_of(one)] / one.median("attend_s");
      table.rows.push_back({shape, one.cell.what["depth"].dump(), strategy,
                            fmt::format("{:.1f}", one.median("bytes_s") / 1e9),
                            fmt::format("{:.3f}", speed)});
      rows.push_back({{"cell", one.cell.key}, {"speed_against_contiguous", speed}});
      const size_t equals = strategy.find('=');
      if (equals == std::string::npos) continue;
      Chart& chart = charts[shape];
      const std::string name = one.cell.what["depth"].dump() + " tokens";
      if (chart.series.empty() || chart.series.back().name != name)
        chart.series.push_back({.name = name, .points = {}});
      chart.series.back().points.push_back({std::stod(strategy.substr(equals + 1)), speed});
    }
    findings.summary = {{"cells", rows}};
    findings.tables.push_back(std::move(table));
    for (auto& [shape, chart] : charts) {
      chart.name = "paged-vs-contiguous-" + shape;
      chart.title = "Attention over blocks against rows in one piece, shape " + shape;
      chart.x_label = "rows of a block";
      chart.y_label = "speed, 1: contiguous";
      chart.log_x = true;
      findings.charts.push_back(std::move(chart));
    }
    return findings;
  }

 private:
  static std::string place_of(const Measured& one) {
    return one.cell.what["shape"].get<std::string>() + one.cell.what["depth"].dump();
  }

  Bench bench_;
};

}  // namespace

std::unique_ptr<Experiment> make_paged_vs_contiguous(const Bench& bench) {
  return std::make_unique<PagedVsContiguous>(bench);
}

}  // namespace kvick::lab
