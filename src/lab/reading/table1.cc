// table1: memory for keys and values, and what a token loads from the slower tier, for Llama-2-7B
// and 13B with 128 sequences of 8192 tokens: the planner's figures beside those of MAPLE's Table 1.
// Measures nothing and needs no model.

#include "lab/core/experiment.h"
#include "lab/data/shapes.h"
#include "lab/measure/selections.h"

namespace kvick::lab {
namespace {

constexpr const char* kShapes[] = {"l7", "l13"};
constexpr uint32_t kBatch = 128, kTokens = 8192;
constexpr const char* kBudget = "0.25";  // the paper's: 75 % less
constexpr double kGiB = 1 << 30;         // what the paper calls GB: its 512 GB are GiB

struct Method {
  const char *name, *policy, *source;  // source: the name in the paper's table, or null
};
// Low-rank keys of 16 values for 128: the paper's k/d of 1/8.
constexpr Method kMethods[] = {{"dense", "", "Dense"},
                               {"sparq r=16", "sparq:r=16", "SparQ"},
                               {"maple f16", "maple:rank=16,type=f16", "MAPLE"},
                               {"maple int8", "maple:rank=16", nullptr},
                               {"quest", "quest:dense_layers=0", nullptr},
                               {"loki d=32", "loki:d=32", nullptr}};

// MAPLE's Table 1; percentages as printed there.
struct SourceRow {
  std::string_view shape, method;
  double footprint, overhead, load, reduction;
};
constexpr SourceRow kSource[] = {
    {"l7", "Dense", 512, 0, 512, 0},           {"l7", "SparQ", 768, 50, 132, 74.22},
    {"l7", "MAPLE", 543, 6.05, 128, 75},       {"l13", "Dense", 1000, 0, 1000, 0},
    {"l13", "SparQ", 1500, 50, 256.25, 74.38}, {"l13", "MAPLE", 1062.5, 6.25, 250, 75}};

constexpr const char* kNotes[][2] = {
    {"13B's 1000 GB",
     "2 * 40 layers * 5120 values * 2 bytes * 128 * 8192 are 800 GiB. 1000 would be 10240 tokens, "
     "160 sequences or 50 layers; the other figures of 13B are shares of it, and the shares hold"},
    {"7B's +6.05 %", "low-rank keys of an eighth of K are 32 GiB of 512, +6.25 %, as for 13B"},
    {"SparQ's load",
     "a quarter of all, and 1/64 of K for 7B, 1/80 for 13B: so many components as if r=64 were of "
     "the model's 4096 or 5120 values, not of a head's 128, where r=16 is 1/8 of K"},
    {"SparQ's +50 %",
     "a second copy of K. kvick keeps none and reads r components where they are, in the rows: "
     "all of their cache lines, which is all of K"},
    {"planner's load",
     "from the slower tier, if nothing that the token before has read stays in memory; of sparq, "
     "which cannot choose from a slower tier, what it reads in memory"}};

const SourceRow* source_of(std::string_view shape, const Method& method) {
  if (method.source == nullptr) return nullptr;
  for (const SourceRow& row : kSource)
    if (row.shape == shape && row.method == method.source) return &row;
  return nullptr;
}

class TableOne final : public Experiment {
 public:
  explicit TableOne(const Bench& bench)
      : bench_(bench),
        batch_(bench.batch != 0 ? bench.batch : kBatch),
        tokens_(bench.tokens != 0 ? bench.tokens : kTokens),
        budget_(bench.select.budgets.empty() ? kBudget : bench.select.budgets.front()) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(shapes_, shapes_or(bench_.shapes, kShapes));
    std::vector<Cell> cells;
    for (const std::string& shape : shapes_)
      for (const Method& method : kMethods) {
        KVICK_TRY_VOID(plan(shape, method));
        cells.push_back({.key = fmt::format("{} {} budget={} tokens={} batch={}", shape,
                                            method.name, budget_, tokens_, batch_),
                         .what = {{"shape", shape},
                                  {"method", method.name},
                                  {"budget", budget_},
                                  {"tokens", tokens_},
                                  {"batch", batch_}}});
      }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    const auto shape = cell.what["shape"].get<std::string>();
    for (const Method& method : kMethods)
      if (cell.what["method"] == method.name) return plan(shape, method);
    return base::fail("table1 has no method {}", cell.what["method"].get<std::string>());
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("{} sequences of {} tokens, f16, GiB; budget {}; beside "
                                        "it MAPLE's Table 1",
                                        batch_, tokens_, budget_),
                   .columns = {"model", "method", "footprint", "over dense %", "load", "less %",
                               "source: footprint", "over %", "load", "less %"},
                   .rows = {}};
    findings.summary = Json::array();
    for (const std::string& shape : shapes_) {
      Chart chart = {.name = "table1-" + shape,
                     .title = fmt::format("{}: memory, and load of one token",
                                          shape_named(shape).value().model),
                     .x_label = fmt::format("{} sequences of {} tokens", batch_, tokens_),
                     .y_label = "GiB",
                     .series = {{.name = "footprint", .points = {}},
                                {.name = "source's footprint", .points = {}},
                                {.name = "load", .points = {}},
                                {.name = "source's load", .points = {}}},
                     .bars = {},
                     .side_by_side = true};
      add_shape(all, shape, table, chart, findings.summary);
      findings.charts.push_back(std::move(chart));
    }
    findings.tables.push_back(std::move(table));
    Table notes = {
        .title = "What the source's figures are made of", .columns = {"note"}, .rows = {}};
    for (const auto& [figure, note] : kNotes)
      notes.rows.push_back({fmt::format("{}: {}", figure, note)});
    findings.tables.push_back(std::move(notes));
    return findings;
  }

 private:
  bool as_in_source() const { return batch_ == kBatch && tokens_ == kTokens && budget_ == kBudget; }

  base::Result<kv::Setup> setup_of(const std::string& shape, const Method& method,
                                   uint32_t tokens) const {
    KVICK_TRY(const NamedShape named, shape_named(shape));
    kv::Setup setup;
    setup.shape = {.layers = named.layers,
                   .kv_heads = named.kv_heads,
                   .head_dim = named.head_dim,
                   .max_tokens = tokens};
    setup.select.group = named.heads / named.kv_heads;
    setup.select.model_dim = named.heads * named.head_dim;
    if (*method.policy == '\0') return setup;
    KVICK_TRY(setup.select.spec, kv::parse_spec(method.policy));
    setup.select.spec.options["budget"] = budget_;
    return setup;
  }

  // Returns the bytes of rows and of the data beside them when all sequences hold all tokens, and
  // the bytes that the next token loads.
  base::Result<Json> plan(const std::string& shape, const Method& method) const {
    KVICK_TRY(const kv::Setup setup, setup_of(shape, method, tokens_));
    KVICK_TRY(const kv::Cost kept, kv::cost_of({.name = "upfront", .options = {}}, setup,
                                               {.tokens = tokens_, .sequences = batch_}));
    KVICK_TRY(kv::Setup next, setup_of(shape, method, tokens_ + 1));
    const kv::Load load = {.tokens = tokens_ + 1, .sequences = batch_};
    KVICK_TRY(const kv::Cost in_memory,
              kv::cost_of({.name = "upfront", .options = {}}, next, load));
    const uint64_t read = in_memory.read_bytes_per_token * batch_;
    uint64_t loaded = read;
    if (next.select.spec.name != "sparq") {
      // So few frames that none still holds a row that the previous token read.
      KVICK_TRY(next.tier.spec, kv::parse_spec("ram:size=16TiB,fast=1MiB,unit=1"));
      KVICK_TRY(const kv::Cost slow, kv::cost_of({.name = "tiered", .options = {}}, next, load));
      loaded = slow.slow_read_bytes_per_token;
    }
    return Json{{"footprint_bytes", kept.fast_bytes}, {"load_bytes", loaded}, {"read_bytes", read}};
  }

  void add_shape(std::span<const Measured> all, const std::string& shape, Table& table,
                 Chart& chart, Json& summary) const {
    double dense_footprint = 0, dense_load = 0;
    for (const Measured& one : all) {
      if (one.cell.what["shape"] != shape) continue;
      const double footprint = one.median("footprint_bytes"), load = one.median("load_bytes");
      const auto name = one.cell.what["method"].get<std::string>();
      if (name == kMethods[0].name) dense_footprint = footprint, dense_load = load;
      const double over = 100 * (footprint / dense_footprint - 1);
      const double less = 100 * (1 - load / dense_load);
      const SourceRow* source = nullptr;
      for (const Method& method : kMethods)
        if (name == method.name && as_in_source()) source = source_of(shape, method);
      std::vector<std::string> row = {std::string(shape_named(shape).value().model), name};
      for (const double value : {footprint / kGiB, over, load / kGiB, less})
        row.push_back(fmt::format("{:.2f}", value));
      for (const auto member :
           {&SourceRow::footprint, &SourceRow::overhead, &SourceRow::load, &SourceRow::reduction})
        row.push_back(source == nullptr ? "-" : fmt::format("{:g}", source->*member));
      table.rows.push_back(std::move(row));
      chart.bars.push_back(name);
      const double bars[] = {footprint / kGiB, source == nullptr ? 0 : source->footprint,
                             load / kGiB, source == nullptr ? 0 : source->load};
      for (size_t i = 0; i < std::size(bars); ++i) chart.series[i].points.push_back({0, bars[i]});
      summary.push_back({{"shape", shape},
                         {"method", name},
                         {"footprint_bytes", footprint},
                         {"over_dense_percent", over},
                         {"load_bytes", load},
                         {"less_percent", less}});
    }
  }

  Bench bench_;
  uint32_t batch_, tokens_;
  std::string budget_;
  std::vector<std::string> shapes_;
};

}  // namespace

std::unique_ptr<Experiment> make_table1(const Bench& bench) {
  return std::make_unique<TableOne>(bench);
}

}  // namespace kvick::lab
