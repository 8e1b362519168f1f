// serving: requests of a trace run through one scheduler with a fixed amount of memory for the
// cache, under each strategy (PagedAttention's section 6.2, whose baselines allocate the whole
// context upfront). Memory that a strategy allocates but does not use leaves room for fewer
// sequences at once.

#include "kv/registry/registry.h"
#include "lab/data/trace.h"
#include "lab/measure/replay.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kContext = 2048;
// Longest requests accepted, prompt and answer; the longest one of the trace is scaled to the
// context. All of Azure's conversations are shorter.
constexpr uint32_t kMostTokens = 16384;
// Taken evenly from the whole trace, because answers at its beginning are half as long as later
// ones.
constexpr size_t kRequests = 64;
// Memory, as a number of whole contexts.
constexpr uint32_t kContexts[] = {1, 2, 4};
struct Kind {
  const char* spec;
  uint32_t least_contexts;  // two where growth copies a sequence that may be as long as the context
};
constexpr Kind kKinds[] = {{"upfront", 1},       {"bmc:r=64", 2},       {"virtual", 1},
                           {"paged:block=8", 1}, {"paged:block=16", 1}, {"paged:block=32", 1}};

class Serving final : public Experiment {
 public:
  explicit Serving(const Bench& bench)
      : bench_(bench), context_(bench.tokens != 0 ? bench.tokens : kContext) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY_VOID(require_model(bench_, "serving"));
    KVICK_TRY(std::vector<TraceRequest> all, read_lengths(bench_.file, kMostTokens));
    uint64_t most = 0;
    for (const TraceRequest& one : all) most = std::max<uint64_t>(most, one.prompt + one.answer);
    // Two tokens less, because both lengths are rounded up.
    all = scaled(std::move(all), (context_ - 2.0) / static_cast<double>(most));
    for (const TraceRequest& one :
         spread_over(all, bench_.prompts != 0 ? bench_.prompts : kRequests))
      jobs_.push_back({.prompt = one.prompt, .answer = one.answer});
    std::vector<Cell> cells;
    for (const uint32_t contexts : kContexts)
      for (const Kind& kind : kKinds) {
        if (contexts < kind.least_contexts) continue;
        cells.push_back({.key = fmt::format("{} {}", contexts, kind.spec),
                         .what = {{"contexts", contexts},
                                  {"strategy", kind.spec},
                                  {"context", context_},
                                  {"requests", jobs_.size()},
                                  {"kv_type", "f16"}}});
      }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(engine::Engine * engine, bench_.model(engine::Attention::kFused));
    engine::SchedulerOptions options;
    KVICK_TRY(options.kv, engine::parse_kv_options(cell.what["strategy"].get<std::string>(), ""));
    options.kv.max_tokens = context_;
    options.step_seconds = 1e9;  // no client waits for single tokens, so steps may be long
    KVICK_TRY(const kv::Cost whole, engine->cost(upfront(), {.tokens = context_}));
    options.kv_bytes = whole.fast_bytes * cell.what["contexts"].get<uint32_t>();
    KVICK_TRY(const Replayed run, replay(*engine, options, jobs_));
    const engine::Metrics& metrics = run.metrics;
    return Json{{"seconds", run.seconds},
                {"answer_tok_s", static_cast<double>(run.answer_tokens) / run.seconds},
                {"requests_s", static_cast<double>(jobs_.size()) / run.seconds},
                {"sequences", run.sequences},
                {"waste", run.waste},
                {"kv_bytes", options.kv_bytes},
                {"preemptions", metrics.swaps + metrics.recomputations},
                {"recomputed_tokens", metrics.recomputed_tokens}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {
        .title = fmt::format("{} requests from all of the trace, scaled to a context of {}, all "
                             "waiting from the beginning; memory in whole contexts",
                             jobs_.size(), context_),
        .columns = {"memory", "strategy", "answer tok/s", "against upfront", "sequences at once",
                    "wasted %", "preemptions"},
        .rows = {}};
    Chart chart = {.name = "serving",
                   .title = "Throughput with the same memory for the cache",
                   .x_label = "memory, in whole contexts",
                   .y_label = "tokens of answers a second",
                   .series = {},
                   .bars = {}};
    for (const Kind& kind : kKinds) chart.series.push_back({.name = kind.spec, .points = {}});
    Json rows = Json::array();
    for (const Measured& one : all) {
      const auto contexts = one.cell.what["contexts"].get<uint32_t>();
      const auto strategy = one.cell.what["strategy"].get<std::string>();
      const double speed = one.median("answer_tok_s");
      const double ratio = speed / upfront_speed(all, contexts);
      table.rows.push_back({std::to_string(contexts), strategy, fmt::format("{:.1f}", speed),
                            fmt::format("{:.2f}", ratio),
                            fmt::format("{:.1f}", one.median("sequences")),
                            fmt::format("{:.2f}", 100 * one.median("waste")),
                            fmt::format("{:.0f}", one.median("preemptions"))});
      rows.push_back({{"contexts", contexts},
                      {"strategy", strategy},
                      {"answer_tok_s", speed},
                      {"against_upfront", ratio},
                      {"waste", one.median("waste")}});
      for (Series& series : chart.series)
        if (series.name == strategy)
          series.points.push_back({static_cast<double>(contexts), speed});
    }
    findings.summary = {{"context", context_}, {"requests", jobs_.size()}, {"cells", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  engine::KvOptions upfront() const {
    engine::KvOptions options;
    options.spec.name = "upfront";
    options.max_tokens = context_;
    return options;
  }

  static double upfront_speed(std::span<const Measured> all, uint32_t contexts) {
    for (const Measured* one : matching(all, {{"contexts", contexts}, {"strategy", "upfront"}}))
      return one->median("answer_tok_s");
    return 0;
  }

  Bench bench_;
  uint32_t context_;
  std::vector<ReplayJob> jobs_;
};

}  // namespace

std::unique_ptr<Experiment> make_serving(const Bench& bench) {
  return std::make_unique<Serving>(bench);
}

}  // namespace kvick::lab
