// scaling: the time of a token as the work grows: by the depth of the context with one sequence,
// and by the number of sequences at a small depth, beside the least time that this machine needs
// (the roofline). On logarithmic axes both should be parallel lines; a jump off the line shows that
// something other than the work dominates. The cache is filled without computing.

#include <algorithm>

#include "engine/eval/speed.h"
#include "lab/measure/filled.h"
#include "lab/measure/least_step.h"
#include "lab/measure/selections.h"

namespace kvick::lab {
namespace {

constexpr const char* kTypes[] = {"f16", "q8"};
constexpr uint32_t kShortest = 1024, kLongest = 131072;  // depths, in powers of two
constexpr uint32_t kMostSequences = 64;                  // in powers of two, from 1 on
constexpr uint32_t kBatchDepth = 128;      // tokens of each sequence, where their number grows
constexpr uint32_t kWarm = 2, kTimed = 8;  // steps

struct Setting {
  std::string store, type;  // as --kv and --kv-type take them
  const char* axis = "";
  uint32_t depth = 0, batch = 1;  // depth: tokens of each sequence after the last step

  std::string label() const { return store + ", " + type; }
};

constexpr const char* kDepth = "depth";
constexpr const char* kSequences = "sequences";

class Scaling final : public Experiment {
 public:
  explicit Scaling(const Bench& bench) : bench_(bench), least_(bench_) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(engine_, model_of(bench_, "scaling"));
    KVICK_TRY(const uint32_t longest, context_of(bench_, *engine_, kLongest));
    if (longest < kBatchDepth)
      return base::fail("a context of {} tokens is too short: {} are needed", longest, kBatchDepth);
    const std::vector<std::string> stores =
        bench_.stores.empty() ? std::vector<std::string>{"virtual"} : bench_.stores;
    KVICK_TRY(const std::vector<std::string> types, types_for(stores[0], longest));
    settings_.clear();
    for (const std::string& store : stores)
      for (const std::string& type : types) {
        for (uint32_t depth = std::min(kShortest, longest); depth <= longest; depth *= 2)
          settings_.push_back({store, type, kDepth, depth, 1});
        const uint32_t most = bench_.batch != 0 ? bench_.batch : kMostSequences;
        for (uint32_t batch = 1; batch <= most; batch *= 2)
          settings_.push_back({store, type, kSequences, kBatchDepth, batch});
      }
    std::vector<Cell> cells;
    for (const Setting& setting : settings_) {
      KVICK_TRY(const engine::KvOptions kv, options_for(setting));
      KVICK_TRY_VOID(engine_->check_kv(kv));
      cells.push_back(cell_of(setting));
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    for (const Setting& setting : settings_) {
      if (cell_of(setting).key != cell.key) continue;
      KVICK_TRY(const engine::KvOptions kv, options_for(setting));
      KVICK_TRY(std::unique_ptr<kv::Store> store, engine_->make_store(kv));
      Filled filled(*engine_, std::move(store), setting.batch);
      const auto seconds = step_seconds(filled, setting.depth);
      if (!seconds.ok())
        return base::fail("{}: {}; take less with --batch or --ctx", cell.key,
                          seconds.error().what);
      // For a step in the middle of the timed ones.
      const uint32_t tokens = setting.depth - kTimed / 2;
      KVICK_TRY(const kv::Cost planned, engine_->cost(kv, {.tokens = tokens, .sequences = 1}));
      const double least = least_.seconds(*engine_, kv, planned, tokens, setting.batch, *seconds);
      return Json{{"step_s", *seconds}, {"least_s", least}};
    }
    return base::fail("no cell {}", cell.key);
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {
        .title = fmt::format("{}: one token of each sequence", stem_of(bench_.model_path)),
        .columns = {"cache", "depth", "sequences", "ms a token", "ms at least",
                    "share of the roofline", "off the line"},
        .rows = {}};
    Json cases = Json::array();
    double worst = 1;
    const Measured* before = nullptr;
    for (const Measured& one : all) {
      if (one.runs.empty()) continue;
      const double off = same_line(before, one) ? share_of(*before) / share_of(one) : 1;
      worst = std::max(worst, off);
      add_row(one, off, table, cases);
      before = &one;
    }
    findings.summary = {{"most_off_the_line", worst}, {"cases", cases}};
    findings.tables.push_back(std::move(table));
    for (const char* axis : {kDepth, kSequences}) findings.charts.push_back(chart_of(cases, axis));
    return findings;
  }

 private:
  static constexpr uint32_t kSteps = kWarm + kTimed;

  // Returns the types that the user gave, else the usual ones that the model supports.
  base::Result<std::vector<std::string>> types_for(const std::string& store,
                                                   uint32_t longest) const {
    if (!bench_.types.empty()) return bench_.types;
    std::vector<std::string> types;
    for (const char* type : kTypes) {
      KVICK_TRY(const engine::KvOptions kv, options_for({store, type, kDepth, longest}));
      if (types.empty() || engine_->check_kv(kv).ok()) types.emplace_back(type);
    }
    return types;
  }

  base::Result<engine::KvOptions> options_for(const Setting& setting) const {
    KVICK_TRY(engine::KvOptions kv, engine::parse_kv_options(setting.store, setting.type));
    kv.max_tokens = setting.depth;
    return engine_->resolved(std::move(kv));
  }

  Cell cell_of(const Setting& setting) const {
    return {.key = fmt::format("{} {} N={} B={}", stem_of(bench_.model_path), setting.label(),
                               setting.depth, setting.batch) +
                   (setting.axis == std::string_view(kDepth) ? " deep" : ""),
            .what = {{"model", stem_of(bench_.model_path)},
                     {"cache", setting.label()},
                     {"axis", setting.axis},
                     {"depth", setting.depth},
                     {"sequences", setting.batch}}};
  }

  static base::Result<double, kv::Shortage> step_seconds(Filled& filled, uint32_t depth) {
    KVICK_TRY_VOID(filled.fill(depth - kSteps));
    std::vector<double> seconds;
    for (uint32_t i = 0; i < kSteps; ++i) {
      KVICK_TRY(const double step, filled.step());
      if (i >= kWarm) seconds.push_back(step);
    }
    return engine::median(seconds);
  }

  static double share_of(const Measured& one) {
    return one.median("least_s") / one.median("step_s");
  }

  // Returns whether a point follows another one on the same curve.
  static bool same_line(const Measured* before, const Measured& one) {
    if (before == nullptr) return false;
    const Json &a = before->cell.what, &b = one.cell.what;
    return a["cache"] == b["cache"] && a["axis"] == b["axis"];
  }

  static void add_row(const Measured& one, double off, Table& table, Json& cases) {
    Json row = one.cell.what;
    const double sequences = row["sequences"].get<double>();
    row["token_ms"] = 1e3 * one.median("step_s") / sequences;
    row["least_ms"] = 1e3 * one.median("least_s") / sequences;
    row["share"] = share_of(one);
    row["off_the_line"] = off;
    table.rows.push_back(
        {row["cache"].get<std::string>(), row["depth"].dump(), row["sequences"].dump(),
         fmt::format("{:.3f}", row["token_ms"].get<double>()),
         fmt::format("{:.3f}", row["least_ms"].get<double>()),
         fmt::format("{:.0f} %", 100 * row["share"].get<double>()), fmt::format("{:.2f}", off)});
    cases.push_back(std::move(row));
  }

  static Chart chart_of(const Json& cases, std::string_view axis) {
    const bool deep = axis == kDepth;
    Chart chart = {.name = fmt::format("scaling-{}", axis),
                   .title = deep ? "A token against the depth of the context, one sequence"
                                 : fmt::format("A token against the number of sequences, each "
                                               "{} tokens deep",
                                               kBatchDepth),
                   .x_label = deep ? "tokens in the cache" : "sequences that decode together",
                   .y_label = "ms a token; dashed: at least, by the roofline",
                   .log_x = true,
                   .log_y = true,
                   .series = {},
                   .bars = {}};
    for (const Json& row : cases) {
      if (row["axis"] != axis) continue;
      const auto cache = row["cache"].get<std::string>();
      const double x = row[deep ? "depth" : "sequences"].get<double>();
      if (chart.series.empty() || chart.series.end()[-2].name != cache) {
        chart.series.push_back({.name = cache, .points = {}});
        chart.series.push_back({.name = cache + ", at least", .points = {}, .dashed = true});
      }
      chart.series.end()[-2].points.push_back({x, row["token_ms"].get<double>()});
      chart.series.end()[-1].points.push_back({x, row["least_ms"].get<double>()});
    }
    return chart;
  }

  Bench bench_;
  engine::Engine* engine_ = nullptr;
  std::vector<Setting> settings_;
  LeastStep least_;
};

}  // namespace

std::unique_ptr<Experiment> make_scaling(const Bench& bench) {
  return std::make_unique<Scaling>(bench);
}

}  // namespace kvick::lab
