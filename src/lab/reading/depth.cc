// depth: the cost of a token late in a context, by policy: the attention of all layers, and the
// whole model's step.
//
// Without --file, the cache is filled with random keys and values, and attention is timed alone,
// with random queries. With --file, the model reads a text, and the timed steps continue it. Then
// the rows that are chosen, and those that a tier's frames still hold, are a working model's, and
// attention is timed within whole steps (attention_clock.h).
//
// With --kv-tier everything is measured on that tier, too, whose frames may then hold fewer rows
// than the cache; with --kv in each of the given stores instead of the default one.

#include <algorithm>

#include "engine/eval/speed.h"
#include "lab/measure/filled.h"
#include "lab/measure/sampled_decode.h"
#include "lab/measure/selections.h"

namespace kvick::lab {
namespace {

// Policies that choose by the contents of rows. Those that forget would need attention over every
// row.
constexpr const char* kPolicies[] = {"quest", "maple", "loki"};
constexpr const char* kBudgets[] = {"0.25", "0.125"};
constexpr uint32_t kLongest = 32768;       // by default; at most the model's context
constexpr uint32_t kWarm = 2, kTimed = 8;  // steps
constexpr const char* kInMemory = "in memory";

struct Setting {
  Selected selected;
  std::string tier;   // as --kv-tier takes it; empty: no tier
  std::string store;  // as --kv takes it; empty: the default store, or the tier's

  // Returns where the rows are, with all options.
  std::string place() const {
    if (!tier.empty()) return tier;
    return store.empty() ? kInMemory : fmt::format("{} ({})", kInMemory, store);
  }
};

class Depth final : public Experiment {
 public:
  explicit Depth(const Bench& bench) : bench_(bench), batch_(bench.batch != 0 ? bench.batch : 1) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(engine_, model_of(bench_, "depth"));
    KVICK_TRY(tokens_, context_of(bench_, *engine_, kLongest));
    if (tokens_ <= kSteps)
      return base::fail("a context of {} tokens is too short to time", tokens_);
    if (!bench_.file.empty()) {
      KVICK_TRY(text_, text_of(bench_, "depth"));
      if (text_.size() < tokens_)
        return base::fail("{} has {} tokens; {} are needed", bench_.file, text_.size(), tokens_);
    }
    KVICK_TRY(std::vector<Selected> selected, selections(bench_, kPolicies, kBudgets));
    selected.insert(selected.begin(), full_attention());
    const std::vector<std::string> stores =
        bench_.stores.empty() ? std::vector<std::string>{""} : bench_.stores;
    std::vector<Setting> places;
    for (const std::string& store : stores) places.push_back({.tier = "", .store = store});
    if (!bench_.tier.empty()) places.push_back({.tier = bench_.tier, .store = ""});
    std::vector<Cell> cells;
    settings_.clear();
    for (const Setting& place : places)
      for (const Selected& one : selected) {
        settings_.push_back({one, place.tier, place.store});
        KVICK_TRY(const engine::KvOptions kv, options_for(settings_.back()));
        KVICK_TRY_VOID(engine_->check_kv(kv));
        cells.push_back(cell_of(settings_.back()));
      }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    for (const Setting& setting : settings_) {
      if (cell_of(setting).key != cell.key) continue;
      KVICK_TRY(const engine::KvOptions kv, options_for(setting));
      KVICK_TRY(std::unique_ptr<kv::Store> store, engine_->make_store(kv));
      Filled filled(*engine_, std::move(store), batch_, text_);
      auto json = measure(filled);
      if (!json.ok())
        return base::fail("{}: {}; take less with --batch or --ctx", cell.key, json.error().what);
      KVICK_TRY(const kv::Cost planned, engine_->cost(kv, {.tokens = tokens_}));
      (*json)["planned_read_bytes"] = batch_ * planned.read_bytes_per_token;
      return std::move(*json);
    }
    return base::fail("no cell {}", cell.key);
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {
        .title = fmt::format(
            "{}, {} sequences of {} tokens{}; against the first line; MB of a step",
            stem_of(bench_.model_path), batch_, tokens_,
            text_.empty() ? ", attention alone"
                          : fmt::format(" of {}, attention within steps", stem_of(bench_.file))),
        .columns = {"rows in", "policy", "attention ms", "times as fast", "step ms",
                    "times as fast", "of its speed in memory", "MB planned", "MB of the tier"},
        .rows = {}};
    Json cases = Json::array();
    for (const Measured& one : all) add_row(all, one, table, cases);
    findings.charts.push_back(chart_of(cases));
    findings.summary = {{"cases", std::move(cases)}};
    findings.tables.push_back(std::move(table));
    return findings;
  }

 private:
  static constexpr uint32_t kSteps = 2 * (kWarm + kTimed);

  base::Result<engine::KvOptions> options_for(const Setting& setting) const {
    engine::KvOptions kv = options_of(setting.selected, tokens_);
    if (!setting.tier.empty()) {
      KVICK_TRY(kv.tier, kv::parse_spec(setting.tier));
    }
    if (!setting.store.empty()) {
      KVICK_TRY(kv.spec, kv::parse_spec(setting.store));
    }
    return kv;
  }

  Cell cell_of(const Setting& setting) const {
    const std::string model = stem_of(bench_.model_path);
    const std::string tier =
        setting.tier.empty() ? setting.place() : setting.tier.substr(0, setting.tier.find(':'));
    // The key has the tier's options, so that results of another tier are not reused.
    // The word "behind" in the key keeps results of earlier versions from being reused: with --file
    // those lack the time of attention.
    const std::string text = text_.empty() ? "" : " behind " + stem_of(bench_.file);
    return {.key = fmt::format("{} N={} B={} {} {}{}", model, tokens_, batch_, setting.place(),
                               setting.selected.label(), text),
            .what = {{"model", model},
                     {"tokens", tokens_},
                     {"batch", batch_},
                     {"tier", tier},
                     {"policy", setting.selected.label()}}};
  }

  // Returns medians of single steps. The first steps of each kind are not timed, because one of
  // them computes a policy's summaries of the rows that filled the cache.
  base::Result<Json, kv::Shortage> measure(Filled& filled) const {
    KVICK_TRY_VOID(filled.fill(tokens_ - kSteps));
    Json json;
    std::vector<double> attend, step;
    for (uint32_t i = 0; i < kWarm + kTimed; ++i) {
      KVICK_TRY(const double seconds, text_.empty() ? filled.attend() : filled.attend_in_step());
      if (i >= kWarm) attend.push_back(seconds);
    }
    json["attend_s"] = engine::median(attend);
    kv::Usage before;
    for (uint32_t i = 0; i < kWarm + kTimed; ++i) {
      if (i == kWarm) before = filled.usage();
      KVICK_TRY(const double seconds, filled.step());
      if (i >= kWarm) step.push_back(seconds);
    }
    const kv::Usage after = filled.usage();
    json["step_s"] = engine::median(step);
    json["slow_read_bytes"] = (after.slow_read_bytes - before.slow_read_bytes) / kTimed;
    return json;
  }

  // Compares with reading all rows in the first store, and with the same policy there.
  void add_row(std::span<const Measured> all, const Measured& one, Table& table,
               Json& cases) const {
    const auto in_memory = [&](const Json& policy) {
      return matching(all, {{"tier", settings_.front().place()}, {"policy", policy}});
    };
    const std::vector<const Measured*> full = in_memory(kFull);
    const std::vector<const Measured*> same = in_memory(one.cell.what["policy"]);
    if (full.empty() || one.runs.empty()) return;
    const double attend = one.median("attend_s"), step = one.median("step_s");
    Json row = one.cell.what;
    row["attention_ms"] = attend * 1e3;
    row["attention_times"] = full[0]->median("attend_s") / attend;
    row["step_ms"] = step * 1e3;
    row["step_times"] = full[0]->median("step_s") / step;
    // Null if only another call measured the policy, in other places.
    row["of_memory"] = same.empty() ? Json() : Json(same[0]->median("step_s") / step);
    row["planned_read_bytes"] = one.median("planned_read_bytes");
    row["slow_read_bytes"] = one.median("slow_read_bytes");
    const auto number = [&](const char* field, double scale = 1) {
      return row[field].is_number() ? fmt::format("{:.2f}", row[field].get<double>() * scale) : "-";
    };
    table.rows.push_back({row["tier"].get<std::string>(), row["policy"].get<std::string>(),
                          number("attention_ms"), number("attention_times"), number("step_ms"),
                          number("step_times"), number("of_memory"),
                          number("planned_read_bytes", 1e-6), number("slow_read_bytes", 1e-6)});
    cases.push_back(std::move(row));
  }

  static Chart chart_of(const Json& cases) {
    Chart chart = {.name = "depth",
                   .title = "Time of a step, and of its attention",
                   .x_label = "policy and budget",
                   .y_label = "ms",
                   .series = {{.name = "step", .points = {}}, {.name = "attention", .points = {}}},
                   .bars = {},
                   .side_by_side = true};
    for (const Json& row : cases) {
      const auto tier = row["tier"].get<std::string>();
      chart.bars.push_back(row["policy"].get<std::string>() +
                           (tier == kInMemory ? "" : ", " + tier));
      chart.series[0].points.push_back({0, row["step_ms"].get<double>()});
      chart.series[1].points.push_back({0, row["attention_ms"].get<double>()});
    }
    return chart;
  }

  Bench bench_;
  const uint32_t batch_;
  engine::Engine* engine_ = nullptr;
  uint32_t tokens_ = 0;
  std::vector<engine::Token> text_;  // text to read; empty: rows are random
  std::vector<Setting> settings_;
};

}  // namespace

std::unique_ptr<Experiment> make_depth(const Bench& bench) {
  return std::make_unique<Depth>(bench);
}

}  // namespace kvick::lab
