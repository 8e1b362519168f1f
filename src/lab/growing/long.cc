// long: contexts of up to 16384 tokens (BMC's Table X and section VIII-H1). Measures the attention
// of one layer of 32 heads of 16 elements with 4 and 16 sequences and, if a model is given, the
// whole model from its first to its last token. The latter is sampled: see sampled_decode.h.

#include <algorithm>
#include <map>

#include "kv/stores/growth_model.h"
#include "lab/data/shapes.h"
#include "lab/measure/growth_run.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kContexts[] = {1024, 2048, 4096, 8192, 16384};
constexpr const char* kDefaultShapes[] = {"h32d16"};
constexpr uint32_t kBatches[] = {4, 16};  // of the paper's table
constexpr const char* kSpecs[] = {"iterative", "upfront", "bmc", "virtual"};
constexpr uint32_t kPieces = 16;  // per context; long steps need no more
constexpr uint32_t kDepths = 4;   // for a whole model
constexpr Way kWays[] = {{"iterative", "bmm"}, {"upfront", "bmm"},   {"bmc:r=auto", "bmm"},
                         {"virtual", "bmm"},   {"virtual", "fused"}, {"paged", "fused"}};

class Long final : public Experiment {
 public:
  explicit Long(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(const std::vector<std::string> shapes, shapes_or(bench_.shapes, kDefaultShapes));
    std::vector<Cell> cells;
    for (const std::string& shape : shapes) {
      KVICK_TRY(const NamedShape named, shape_named(shape));
      for (const uint32_t batch : kBatches)
        for (const uint32_t tokens : contexts()) add_attention(named, batch, tokens, cells);
    }
    if (bench_.model_path.empty()) {
      bench_.note("long: without -m MODEL only the attention of one layer is measured");
      return cells;
    }
    KVICK_TRY_VOID(add_model(cells));
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    if (!cell.what.contains("shape")) return measure_decode(bench_, point_of(cell));
    KVICK_TRY(const NamedShape shape, shape_named(cell.what["shape"].get<std::string>()));
    GrowthRun run = {.config = config_of(shape, 1),
                     .spec = cell.what["strategy"].get<std::string>(),
                     .tokens = cell.what["tokens"].get<uint32_t>(),
                     .batch = cell.what["batch"].get<uint32_t>()};
    run.piece = std::max(1U, run.tokens / kPieces);
    if (run.spec == "bmc") {
      KVICK_TRY(const uint32_t growths, growths_for(shape, run));
      run.piece = std::min(run.piece, run.tokens / growths);
      run.spec = fmt::format("bmc:r={}", run.tokens / growths);
    }
    KVICK_TRY(const GrowthCost cost, run_growth(bench_, run));
    return json_of(cost);
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    findings.summary = {{"attention", Json::array()}, {"model", Json::array()}};
    add_attention_findings(all, findings);
    add_model_findings(all, findings);
    return findings;
  }

 private:
  // Returns kContexts up to the number of tokens that the user gave, if any.
  std::vector<uint32_t> contexts() const {
    std::vector<uint32_t> contexts;
    for (const uint32_t tokens : kContexts)
      if (bench_.tokens == 0 || tokens <= bench_.tokens) contexts.push_back(tokens);
    if (contexts.empty()) contexts.push_back(bench_.tokens);
    return contexts;
  }
  uint32_t model_batch() const { return bench_.batch != 0 ? bench_.batch : 1; }

  void add_attention(const NamedShape& shape, uint32_t batch, uint32_t tokens,
                     std::vector<Cell>& cells) const {
    const uint64_t token_bytes = uint64_t{2} * sizeof(float) * shape.kv_heads * shape.head_dim;
    if (!fits_memory(bench_, fmt::format("long: {} sequences of {} tokens", batch, tokens),
                     token_bytes * tokens * batch))
      return;
    for (const char* spec : kSpecs)
      cells.push_back({.key = fmt::format("{} N={} B={} {}", shape.name, tokens, batch, spec),
                       .what = {{"shape", shape.name},
                                {"strategy", spec},
                                {"attention", "bmm"},
                                {"tokens", tokens},
                                {"batch", batch},
                                {"layers", 1}}});
  }

  base::Status<> add_model(std::vector<Cell>& cells) const {
    KVICK_TRY(engine::Engine * engine, bench_.model(engine::Attention::kFused));
    const uint32_t context = engine->model().config().context;
    const kv::StoreInfo rows =
        engine->store_info({.k_type = kernels::DType::kF32, .v_type = kernels::DType::kF32});
    for (const uint32_t tokens : contexts()) {
      if (tokens > context) {
        bench_.note(
            fmt::format("long: {} tokens are more than the model's {}: left out", tokens, context));
        continue;
      }
      if (!fits_memory(bench_, fmt::format("long: the model with {} tokens", tokens),
                       rows.token_bytes() * tokens * model_batch()))
        continue;
      const std::vector<Cell> more =
          decode_cells(bench_, kWays, {.tokens = tokens, .batch = model_batch()},
                       sample_depths(0, tokens, kDepths));
      cells.insert(cells.end(), more.begin(), more.end());
    }
    return base::Done{};
  }

  // Returns the model's number of growths, from rates that are measured once per context.
  base::Result<uint32_t> growths_for(const NamedShape& shape, const GrowthRun& run) {
    uint32_t& growths = growths_[{std::string(shape.name), run.tokens}];
    if (growths > 0) return growths;
    KVICK_TRY(const kv::GrowthRates rates, measure_rates(bench_, run));
    growths = kv::best_growths(run.tokens, setup_of(bench_, run).shape.token_bytes(), rates);
    return growths;
  }

  static double attention_s(std::span<const Measured> all, Json what, const char* spec) {
    what["strategy"] = spec;
    const std::vector<const Measured*> cells = matching(all, what);
    return cells.empty() ? 0 : cells[0]->median("all_s");
  }

  void add_attention_findings(std::span<const Measured> all, Findings& findings) const {
    Table table = {.title =
                       "Attention of one layer from the first to the last token, by library "
                       "products; BMC's number of growths is its model's",
                   .columns = {"shape", "sequences", "tokens", "bmc s", "iterative / bmc",
                               "upfront / bmc", "iterative / virtual"},
                   .rows = {}};
    Chart chart = chart_for("long-attention", "Attention of one layer: iterative against BMC");
    for (const Measured* bmc : matching(all, {{"strategy", "bmc"}})) {
      const Json& cell = bmc->cell.what;
      const Json what = {
          {"shape", cell["shape"]}, {"tokens", cell["tokens"]}, {"batch", cell["batch"]}};
      const double seconds = bmc->median("all_s");
      const double iterative = attention_s(all, what, "iterative");
      const double over[] = {iterative / seconds, attention_s(all, what, "upfront") / seconds,
                             iterative / attention_s(all, what, "virtual")};
      table.rows.push_back({cell["shape"].get<std::string>(), cell["batch"].dump(),
                            cell["tokens"].dump(), fmt::format("{:.3f}", seconds),
                            fmt::format("{:.2f}", over[0]), fmt::format("{:.2f}", over[1]),
                            fmt::format("{:.2f}", over[2])});
      Json row = what;
      row["iterative_over_bmc"] = over[0];
      row["upfront_over_bmc"] = over[1];
      row["iterative_over_virtual"] = over[2];
      findings.summary["attention"].push_back(std::move(row));
      add_point(fmt::format("{}, {} sequences", cell["shape"].get<std::string>(),
                            cell["batch"].get<uint32_t>()),
                {cell["tokens"].get<double>(), over[0]}, chart);
    }
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
  }

  void add_model_findings(std::span<const Measured> all, Findings& findings) const {
    Table table = {.title = fmt::format("A whole model, {} sequences, seconds from the first to "
                                        "the last token, rows of f32; {}",
                                        model_batch(), sampling_note(kDepths)),
                   .columns = {"tokens"},
                   .rows = {}};
    for (const Way& way : kWays)
      table.columns.push_back(fmt::format("{} {}", way.spec, way.attention));
    Chart chart = chart_for("long-model", "A whole model: time against BMC's with bmm");
    chart.y_label = "time, 1: BMC";
    for (const uint32_t tokens : contexts()) {
      std::map<std::string, double> seconds;
      for (const Way& way : kWays) {
        const std::vector<const Measured*> cells = matching(all, {{"kv_type", "f32"},
                                                                  {"tokens", tokens},
                                                                  {"strategy", way.spec},
                                                                  {"attention", way.attention}});
        if (!cells.empty()) seconds[name_of(way)] = sum_over(cells, tokens).all();
      }
      if (seconds.size() == std::size(kWays))
        add_model_row(tokens, seconds, table, chart, findings.summary["model"]);
    }
    if (table.rows.empty()) return;
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
  }

  static std::string name_of(const Way& way) {
    return fmt::format("{} {}", way.spec, way.attention);
  }

  static void add_model_row(uint32_t tokens, const std::map<std::string, double>& seconds,
                            Table& table, Chart& chart, Json& rows) {
    const double bmc = seconds.at("bmc:r=auto bmm");
    std::vector<std::string> fields = {std::to_string(tokens)};
    Json row = {{"tokens", tokens}};
    for (const Way& way : kWays) {
      const double all = seconds.at(name_of(way));
      fields.push_back(fmt::format("{:.2f} ({:.2f})", all, all / bmc));
      row[name_of(way)] = all;
      add_point(name_of(way), {static_cast<double>(tokens), all / bmc}, chart);
    }
    table.rows.push_back(std::move(fields));
    rows.push_back(std::move(row));
  }

  static Chart chart_for(const char* name, const char* title) {
    return {.name = name,
            .title = title,
            .x_label = "tokens of the context",
            .y_label = "times as fast",
            .log_x = true,
            .series = {},
            .bars = {}};
  }

  static void add_point(const std::string& name, Point point, Chart& chart) {
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const Series& one) { return one.name == name; });
    if (series == chart.series.end())
      series = chart.series.insert(series, {.name = name, .points = {}});
    series->points.push_back(point);
  }

  Bench bench_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> growths_;
};

}  // namespace

std::unique_ptr<Experiment> make_long(const Bench& bench) { return std::make_unique<Long>(bench); }

}  // namespace kvick::lab
