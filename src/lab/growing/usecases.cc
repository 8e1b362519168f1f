// usecases: prompts and answers of several lengths and batch sizes, as throughput relative to
// blocks (BMC's Table II: iterative stands for Hugging Face, blocks for vLLM). The prompt is timed
// for one sequence and multiplied by the batch; answers are sampled: see sampled_decode.h.

#include <algorithm>
#include <cmath>

#include "engine/eval/speed.h"
#include "engine/session/session.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

struct UseCase {
  const char* name;
  uint32_t prompt, answer;
};
constexpr UseCase kUseCases[] = {
    {"chat", 128, 128}, {"question", 128, 1920}, {"summary", 1920, 128}, {"long", 1920, 1920}};
constexpr uint32_t kBatches[] = {1, 32, 128};
constexpr uint32_t kDepths = 4;
constexpr Way kWays[] = {
    {"iterative", "bmm"}, {"bmc:r=auto", "bmm"}, {"paged", "fused"}, {"virtual", "fused"}};
constexpr const char* kBaseline = "paged";

class UseCases final : public Experiment {
 public:
  explicit UseCases(const Bench& bench) : bench_(bench) {
    if (bench.batch != 0)
      batches_ = {bench.batch};
    else
      batches_.assign(std::begin(kBatches), std::end(kBatches));
  }

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY_VOID(require_model(bench_, "usecases"));
    KVICK_TRY(engine::Engine * engine, bench_.model(engine::Attention::kFused));
    std::vector<Cell> cells;
    for (const UseCase& use : kUseCases) {
      if (!fits_context(use, *engine)) continue;
      for (const Way& way : kWays) cells.push_back(prompt_cell(use, way));
      for (const uint32_t batch : batches_) {
        if (!fits_memory(use, batch, *engine)) continue;
        std::vector<Cell> decode =
            decode_cells(bench_, kWays, {.tokens = use.prompt + use.answer, .batch = batch},
                         sample_depths(use.prompt, use.prompt + use.answer, kDepths));
        for (Cell& cell : decode) {
          cell.key = fmt::format("{} {}", use.name, cell.key);
          cell.what["use"] = use.name;
          cells.push_back(std::move(cell));
        }
      }
    }
    if (cells.empty())
      return base::fail("usecases needs a context of at least {} tokens",
                        kUseCases[0].prompt + kUseCases[0].answer);
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    if (!cell.what.contains("prompt")) return measure_decode(bench_, point_of(cell));
    return measure_prompt(cell);
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Tokens a second of answers, prompts included, against {}; "
                                        "rows of f32; prompts: one, times the batch; answers {}",
                                        kBaseline, sampling_note(kDepths)),
                   .columns = {"use", "prompt", "answer", "batch", "paged tok/s"},
                   .rows = {}};
    for (const Way& way : kWays)
      if (way.spec != std::string_view(kBaseline))
        table.columns.push_back(fmt::format("{} {}", way.spec, way.attention));
    Json rows = Json::array();
    std::map<std::string, double> logs;  // sums over use cases of log(ratio), by strategy
    for (const UseCase& use : kUseCases)
      for (const uint32_t batch : batches_) add_row(all, use, batch, table, rows, logs);
    Json geomean = Json::object();
    std::vector<std::string> last = {"geometric mean", "", "", "", ""};
    for (const Way& way : kWays) {
      if (way.spec == std::string_view(kBaseline)) continue;
      const double mean =
          std::exp(logs[way.spec] / static_cast<double>(std::max<size_t>(1, rows.size())));
      geomean[way.spec] = mean;
      last.push_back(fmt::format("{:.2f}", mean));
    }
    if (!table.rows.empty()) table.rows.push_back(std::move(last));
    findings.summary = {{"uses", rows}, {"geometric_mean", geomean}};
    findings.charts.push_back(chart_of(rows));
    findings.tables.push_back(std::move(table));
    return findings;
  }

 private:
  bool fits_context(const UseCase& use, const engine::Engine& engine) const {
    const uint32_t tokens = use.prompt + use.answer;
    const uint32_t context = bench_.tokens != 0 ? bench_.tokens : engine.model().config().context;
    if (tokens > context)
      bench_.note(fmt::format("usecases: {} needs {} tokens, the context has {}: left out",
                              use.name, tokens, context));
    return tokens <= context;
  }

  bool fits_memory(const UseCase& use, uint32_t batch, const engine::Engine& engine) const {
    const kv::StoreInfo rows =
        engine.store_info({.k_type = kernels::DType::kF32, .v_type = kernels::DType::kF32});
    return lab::fits_memory(bench_, fmt::format("usecases: {} with {} sequences", use.name, batch),
                            rows.token_bytes() * (use.prompt + use.answer) * batch);
  }

  Cell prompt_cell(const UseCase& use, const Way& way) const {
    Cell cell = cell_of(bench_, {.spec = way.spec,
                                 .attention = way.attention,
                                 .tokens = use.prompt + use.answer,
                                 .batch = 1});
    cell.key = fmt::format("{} prompt {}", use.name, cell.key);
    cell.what["use"] = use.name;
    cell.what["prompt"] = use.prompt;
    return cell;
  }

  // Returns the seconds of reading one sequence's prompt.
  base::Result<Json> measure_prompt(const Cell& cell) const {
    const DecodePoint point = point_of(cell);
    const auto prompt = cell.what["prompt"].get<uint32_t>();
    KVICK_TRY(engine::Engine * engine,
              bench_.model(point.attention == "bmm" ? engine::Attention::kBmm
                                                    : engine::Attention::kFused));
    KVICK_TRY(engine::KvOptions kv, engine::parse_kv_options(point.spec, "f32"));
    kv.max_tokens = point.tokens;
    const engine::Case prefill = {engine::Phase::kPrefill, prompt, 0, 1};
    KVICK_TRY(const std::vector<engine::Measurement> measured,
              engine::measure_speed(*engine, {&prefill, 1}, {.kv = kv, .repeats = 1}));
    return Json{{"prompt_s", prompt / measured[0].tok_s[0]}};
  }

  // Returns the seconds of all prompts and answers; 0: not measured.
  static double seconds_of(std::span<const Measured> all, const UseCase& use, uint32_t batch,
                           const Way& way) {
    const Json common = {{"use", use.name}, {"strategy", way.spec}, {"attention", way.attention}};
    Json what = common;
    what["prompt"] = use.prompt;
    const std::vector<const Measured*> prompts = matching(all, what);
    double seconds = 0;
    for (const Measured* one : prompts) seconds += batch * one->median("prompt_s");
    std::vector<const Measured*> decode;
    for (const Measured* one : matching(all, common))
      if (!one->cell.what.contains("prompt") && one->cell.what["batch"] == batch)
        decode.push_back(one);
    return decode.empty() ? 0 : seconds + sum_over(decode, use.answer).all();
  }

  static void add_row(std::span<const Measured> all, const UseCase& use, uint32_t batch,
                      Table& table, Json& rows, std::map<std::string, double>& logs) {
    const double baseline = seconds_of(all, use, batch, {kBaseline, "fused"});
    if (baseline == 0) return;  // it did not fit into memory
    const double tok_s = static_cast<double>(uint64_t{batch} * use.answer) / baseline;
    std::vector<std::string> fields = {use.name, std::to_string(use.prompt),
                                       std::to_string(use.answer), std::to_string(batch),
                                       fmt::format("{:.1f}", tok_s)};
    Json row = {{"use", use.name}, {"batch", batch}, {"paged_tok_s", tok_s}};
    for (const Way& way : kWays) {
      if (way.spec == std::string_view(kBaseline)) continue;
      const double ratio = baseline / seconds_of(all, use, batch, way);
      logs[way.spec] += std::log(ratio);
      row[way.spec] = ratio;
      fields.push_back(fmt::format("{:.2f}", ratio));
    }
    table.rows.push_back(std::move(fields));
    rows.push_back(std::move(row));
  }

  static Chart chart_of(const Json& rows) {
    Chart chart = {.name = "usecases",
                   .title = "Throughput against blocks",
                   .x_label = "use and sequences",
                   .y_label = "throughput, 1: paged",
                   .series = {},
                   .bars = {},
                   .side_by_side = true};
    for (const Json& row : rows)
      chart.bars.push_back(
          fmt::format("{} {}", row["use"].get<std::string>(), row["batch"].get<uint32_t>()));
    for (const Way& way : kWays) {
      if (way.spec == std::string_view(kBaseline)) continue;
      Series series = {.name = fmt::format("{} {}", way.spec, way.attention), .points = {}};
      for (const Json& row : rows) series.points.push_back({0, row[way.spec].get<double>()});
      chart.series.push_back(std::move(series));
    }
    return chart;
  }

  Bench bench_;
  std::vector<uint32_t> batches_;
};

}  // namespace

std::unique_ptr<Experiment> make_usecases(const Bench& bench) {
  return std::make_unique<UseCases>(bench);
}

}  // namespace kvick::lab
