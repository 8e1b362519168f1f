// sliding: what the reserve of the static sliding cache costs in memory and saves in copies: by the
// formulas of its source ("LLM Technical Notes: KV Cache Implementation for inference on HTP"), by
// the counts of a store, and by time, also beyond S tokens.

#include "kv/stores/sliding.h"

#include <algorithm>
#include <map>

#include "kv/strategy/ranges.h"
#include "lab/data/shapes.h"
#include "lab/measure/growth_run.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kTokens = 2048;  // S, as in the source
constexpr const char* kReserves[] = {"1", "1.25", "1.5", "2"};
constexpr const char* kTypes[] = {"f16", "static16", "static8"};
constexpr const char* kSizeShape = "l7";  // the source's model
constexpr const char* kDefaultShapes[] = {"s", "m"};
// Rounds through the window of S - 1 rows: the first one ends when the window is full.
constexpr uint32_t kLaps = 4;

std::string spec_of(const Cell& cell) {
  return "sliding:reserve=" + cell.what["reserve"].get<std::string>();
}

kernels::DType type_named(std::string_view name) {
  if (name == "static16") return kernels::DType::kStatic16;
  return name == "static8" ? kernels::DType::kStatic8 : kernels::DType::kF16;
}

class SlidingExperiment final : public Experiment {
 public:
  explicit SlidingExperiment(const Bench& bench)
      : bench_(bench), tokens_(bench.tokens != 0 ? bench.tokens : kTokens) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(const std::vector<std::string> shapes, shapes_or(bench_.shapes, kDefaultShapes));
    std::vector<Cell> cells;
    for (const char* type : kTypes)
      for (const char* reserve : kReserves)
        cells.push_back(cell("size", kSizeShape, type, reserve));
    for (const std::string& shape : shapes)
      for (const char* reserve : kReserves) cells.push_back(cell("decode", shape, "f16", reserve));
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    return cell.what["part"] == "size" ? measure_size(cell) : measure_decode(cell);
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table sizes = {
        .title = fmt::format("Llama-2-7B, S = {}: bytes of the cache", tokens_),
        .columns = {"rows", "reserve", "formula", "planned", "one layer, counted", "as planned"},
        .rows = {}};
    Table decode = {
        .title = fmt::format("One layer, one sequence of {} times S = {} tokens, rows of f16",
                             kLaps, tokens_),
        .columns = {"shape", "reserve", "spare rows", "copies", "copied MB", "as planned",
                    "us/token", "against reserve 2", "us, first round", "us, last round",
                    "us, longest"},
        .rows = {}};
    std::map<std::string, double> two;
    for (const Measured& one : all)
      if (one.cell.what["part"] == "decode" && one.cell.what["reserve"] == "2")
        two[one.cell.what["shape"].get<std::string>()] = one.median("token_s");
    Json size_rows = Json::array(), decode_rows = Json::array();
    for (const Measured& one : all) {
      if (one.cell.what["part"] == "size")
        add_size(one, sizes, size_rows);
      else
        add_decode(one, two[one.cell.what["shape"].get<std::string>()], decode, decode_rows);
    }
    findings.summary = {{"sizes", size_rows}, {"decode", decode_rows}};
    findings.tables = {std::move(sizes), std::move(decode)};
    findings.charts.push_back(chart_of(all));
    return findings;
  }

 private:
  Cell cell(const char* part, const std::string& shape, const char* type,
            const char* reserve) const {
    return {.key = fmt::format("{} {} S={} {} reserve={}", part, shape, tokens_, type, reserve),
            .what = {{"part", part},
                     {"shape", shape},
                     {"tokens", tokens_},
                     {"kv_type", type},
                     {"reserve", reserve}}};
  }

  base::Result<kv::Setup> setup(const Cell& cell, uint32_t layers) const {
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    kv::Setup setup =
        setup_of(bench_, {.config = config_of(shape, layers), .spec = {}, .tokens = tokens_});
    setup.shape.k_type = setup.shape.v_type = type_named(cell.what["kv_type"].get<std::string>());
    // Only sizes and times are measured, so any ranges will do.
    const std::vector<float> ranges(size_t{layers} * shape.kv_heads, 1.0F);
    setup.ranges = std::make_shared<kv::StaticRanges>(kv::StaticRanges{.k = ranges, .v = ranges});
    return setup;
  }

  // Computes the sizes of the whole model by formulas, and of one layer by a store with one token.
  base::Result<Json> measure_size(const Cell& cell) const {
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    KVICK_TRY(const kv::Spec spec, kv::parse_spec(spec_of(cell)));
    KVICK_TRY(const kv::Setup whole, setup(cell, shape.layers));
    KVICK_TRY(const kv::Sliding sliding, kv::sliding_of(whole.shape, spec));
    KVICK_TRY(const kv::Cost planned, kv::cost_of(spec, whole, {.tokens = 1}));
    KVICK_TRY(const kv::Setup layer, setup(cell, 1));
    KVICK_TRY(const kv::Cost layer_planned, kv::cost_of(spec, layer, {.tokens = 1}));
    KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(spec, layer));
    model::Workspace workspace(bench_.pool, bench_.kernels);
    const model::Config config = config_of(shape, 1);
    plan::AttentionBlock block(config, *store, workspace);
    const kv::SeqId seq = store->open({}).seq;
    if (auto done = block.fill({&seq, 1}, 1); !done.ok())
      return base::fail("{}: {}", cell.key, done.error().what);
    return Json{{"formula_bytes", kv::sliding_formula_bytes(whole.shape, sliding)},
                {"planned_bytes", planned.fast_bytes},
                {"layer_planned_bytes", layer_planned.fast_bytes},
                {"layer_counted_bytes", store->usage().allocated_bytes}};
  }

  // Times every token of all rounds. Returns the seconds of each round, the copies and the bytes
  // copied.
  base::Result<Json> measure_decode(const Cell& cell) const {
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    KVICK_TRY(const kv::Spec spec, kv::parse_spec(spec_of(cell)));
    KVICK_TRY(const kv::Setup setup, this->setup(cell, 1));
    KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(spec, setup));
    model::Workspace workspace(bench_.pool, bench_.kernels);
    const model::Config config = config_of(shape, 1);
    plan::AttentionBlock block(config, *store, workspace);
    const kv::SeqId seq = store->open({}).seq;
    const uint32_t lap = tokens_ - 1;
    double seconds[kLaps] = {}, longest = 0;
    uint32_t copies = 0;
    for (uint32_t i = 0; i < kLaps * lap; ++i) {
      const uint64_t copied = store->usage().copied_bytes;
      plan::BlockSeconds step;
      if (auto done = block.step({&seq, 1}, 1, step); !done.ok())
        return base::fail("{}: {}", cell.key, done.error().what);
      seconds[i / lap] += step.all() / lap;
      longest = std::max(longest, step.all());
      copies += store->usage().copied_bytes > copied ? 1 : 0;
    }
    KVICK_TRY(const kv::Cost planned, kv::cost_of(spec, setup, {.tokens = kLaps * lap}));
    KVICK_TRY(const kv::Sliding sliding, kv::sliding_of(setup.shape, spec));
    Json json = {{"tokens", kLaps * lap},
                 {"spare_rows", sliding.spare()},
                 {"copies", copies},
                 {"planned_copies", planned_copies(sliding, kLaps * lap)},
                 {"copied_bytes", store->usage().copied_bytes},
                 {"planned_copied_bytes", planned.copied_bytes},
                 {"token_s", 0.0},
                 {"longest_s", longest}};
    double past_s = 0;  // mean over the rounds in which the window is full
    for (uint32_t i = 0; i < kLaps; ++i) {
      json[fmt::format("round_{}_s", i + 1)] = seconds[i];
      if (i > 0) past_s += seconds[i] / (kLaps - 1);
    }
    json["token_s"] = past_s;
    return json;
  }

  // Returns the copies planned: one whenever the spare rows are used up; without spare rows, one
  // per token.
  static uint64_t planned_copies(const kv::Sliding& sliding, uint64_t tokens) {
    return sliding.spare() == 0 ? tokens : (tokens - 1) / sliding.spare();
  }

  static void add_size(const Measured& one, Table& table, Json& rows) {
    const auto& what = one.cell.what;
    const bool same = one.median("layer_counted_bytes") == one.median("layer_planned_bytes");
    const auto bytes = [&](const char* field) { return fmt::format("{:.0f}", one.median(field)); };
    table.rows.push_back({what["kv_type"].get<std::string>(), what["reserve"].get<std::string>(),
                          bytes("formula_bytes"), bytes("planned_bytes"),
                          bytes("layer_counted_bytes"), same ? "yes" : "no"});
    rows.push_back({{"kv_type", what["kv_type"]},
                    {"reserve", what["reserve"]},
                    {"formula_bytes", one.median("formula_bytes")},
                    {"planned_bytes", one.median("planned_bytes")},
                    {"counted_as_planned", same}});
  }

  static void add_decode(const Measured& one, double two_s, Table& table, Json& rows) {
    const auto us = [](double seconds) { return fmt::format("{:.1f}", 1e6 * seconds); };
    const bool same = one.median("copied_bytes") == one.median("planned_copied_bytes") &&
                      one.median("copies") == one.median("planned_copies");
    const double slower = one.median("token_s") / two_s;
    table.rows.push_back(
        {one.cell.what["shape"].get<std::string>(), one.cell.what["reserve"].get<std::string>(),
         fmt::format("{:.0f}", one.median("spare_rows")),
         fmt::format("{:.0f}", one.median("copies")),
         fmt::format("{:.2f}", one.median("copied_bytes") / 1e6), same ? "yes" : "no",
         us(one.median("token_s")), fmt::format("{:.3f}", slower), us(one.median("round_1_s")),
         us(one.median(fmt::format("round_{}_s", kLaps))), us(one.median("longest_s"))});
    rows.push_back({{"shape", one.cell.what["shape"]},
                    {"reserve", one.cell.what["reserve"]},
                    {"copies", one.median("copies")},
                    {"copied_as_planned", same},
                    {"time_against_reserve_2", slower}});
  }

  static Chart chart_of(std::span<const Measured> all) {
    Chart chart = {.name = "sliding",
                   .title = "One token of one layer by the reserve, window full",
                   .x_label = "buffer over window (reserve)",
                   .y_label = "us",
                   .series = {},
                   .bars = {}};
    std::map<std::string, Series> shapes;
    for (const Measured& one : all) {
      if (one.cell.what["part"] != "decode") continue;
      Series& series = shapes[one.cell.what["shape"].get<std::string>()];
      series.points.push_back(
          {std::stod(one.cell.what["reserve"].get<std::string>()), 1e6 * one.median("token_s")});
    }
    for (auto& [shape, series] : shapes) {
      series.name = "shape " + shape;
      chart.series.push_back(std::move(series));
    }
    return chart;
  }

  Bench bench_;
  uint32_t tokens_;
};

}  // namespace

std::unique_ptr<Experiment> make_sliding(const Bench& bench) {
  return std::make_unique<SlidingExperiment>(bench);
}

}  // namespace kvick::lab
