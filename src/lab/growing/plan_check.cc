// plan-check: what the planner says beforehand against what bench counts and times afterwards.

#include <cmath>

#include "engine/eval/speed.h"
#include "lab/core/experiment.h"
#include "plan/forecast/predict.h"

namespace kvick::lab {
namespace {

constexpr const char* kSpecs[] = {"virtual",   "bmc:r=64", "upfront",
                                  "iterative", "paged",    "sliding"};
constexpr uint32_t kDepths[] = {512, 4096}, kDecode = 48;

class PlanCheck final : public Experiment {
 public:
  explicit PlanCheck(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    if (bench_.model_path.empty()) return base::fail("plan-check needs a model: -m MODEL");
    std::vector<Cell> cells;
    for (const uint32_t depth : kDepths)
      for (const char* spec : kSpecs)
        cells.push_back({.key = fmt::format("{} {}", depth, spec),
                         .what = {{"strategy", spec}, {"depth", depth}, {"kv_type", "f16"}}});
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(engine::Engine * engine, bench_.model(engine::Attention::kFused));
    const auto depth = cell.what["depth"].get<uint32_t>();
    KVICK_TRY(engine::KvOptions kv,
              engine::parse_kv_options(cell.what["strategy"].get<std::string>(), "f16"));
    kv.max_tokens = depth + kDecode;
    KVICK_TRY(const double predicted, predict(*engine, kv, depth));
    const engine::Case decode = {engine::Phase::kDecode, kDecode, depth, 1};
    KVICK_TRY(const std::vector<engine::Measurement> measured,
              engine::measure_speed(*engine, {&decode, 1}, {.kv = kv, .repeats = 3}));
    KVICK_TRY(const kv::Cost cost, engine->cost(kv, {.tokens = depth + kDecode, .sequences = 1}));
    return Json{{"predicted_tok_s", predicted},
                {"measured_tok_s", engine::median(measured[0].tok_s)},
                {"planned_bytes", cost.fast_bytes},
                {"counted_bytes", measured[0].usage.allocated_bytes}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = "Decode, one sequence, float16 rows",
                   .columns = {"depth", "strategy", "predicted tok/s", "measured tok/s",
                               "measured / predicted", "bytes equal"},
                   .rows = {}};
    double worst = 1;
    bool equal = true;
    for (const Measured& one : all) {
      const double ratio = one.median("measured_tok_s") / one.median("predicted_tok_s");
      const bool same = one.median("planned_bytes") == one.median("counted_bytes");
      equal = equal && same;
      if (std::abs(std::log(ratio)) > std::abs(std::log(worst))) worst = ratio;
      table.rows.push_back({one.cell.what["depth"].dump(),
                            one.cell.what["strategy"].get<std::string>(),
                            fmt::format("{:.1f}", one.median("predicted_tok_s")),
                            fmt::format("{:.1f}", one.median("measured_tok_s")),
                            fmt::format("{:.3f}", ratio), same ? "yes" : "no"});
    }
    findings.summary = {{"worst_measured_over_predicted", worst}, {"bytes_equal", equal}};
    findings.tables.push_back(std::move(table));
    return findings;
  }

 private:
  // Everything measured anew, as a first `kvick plan` does.
  base::Result<double> predict(engine::Engine& engine, const engine::KvOptions& kv,
                               uint32_t depth) {
    KVICK_TRY(const io::ModelFile file, io::ModelFile::open(bench_.model_path));
    KVICK_TRY(const plan::ModelSize model, plan::size_of(file));
    kv::Setup setup;
    setup.shape = {.max_tokens = kv.max_tokens, .k_type = *kv.k_type, .v_type = *kv.v_type};
    model::set_layers(engine.model().config(), setup);
    setup.compute.store_row = bench_.kernels.store_row;
    setup.compute.store_group = bench_.kernels.store_group;
    setup.compute.pool = &bench_.pool;
    model::Workspace workspace(bench_.pool, bench_.kernels);
    KVICK_TRY(const kv::GrowthRates rates, plan::measure_growth(model.config, setup, workspace));
    KVICK_TRY(const plan::Predictor predictor, plan::Predictor::measure({.model = model,
                                                                         .spec = kv.spec,
                                                                         .setup = setup,
                                                                         .rates = rates,
                                                                         .batch = 1,
                                                                         .tokens = depth},
                                                                        std::move(workspace)));
    return 1 / predictor.token(depth).all();
  }

  Bench bench_;
};

}  // namespace

std::unique_ptr<Experiment> make_plan_check(const Bench& bench) {
  return std::make_unique<PlanCheck>(bench);
}

}  // namespace kvick::lab
