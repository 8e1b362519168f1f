// quant: how much quality the element types of keys and values cost, and how much memory and time
// they save, on one model and one text.

#include <algorithm>

#include "base/text_file.h"
#include "engine/eval/perplexity.h"
#include "engine/eval/speed.h"
#include "lab/measure/selections.h"

namespace kvick::lab {
namespace {

constexpr const char* kTypes[] = {"f32",       "f16",   "bf16",         "q8",   "q4",
                                  "k=q8,v=q4", "mixed", "mixed:old=q4", "kivi4"};
constexpr uint32_t kDepth = 8192;  // by default
// Windows of a quarter of the depth; the text is eight windows long by default.
constexpr uint32_t kShorter = 4, kWindows = 8;
constexpr uint32_t kDecode = 32;

class Quant final : public Experiment {
 public:
  explicit Quant(const Bench& bench)
      : bench_(bench),
        depth_(bench.tokens != 0 ? bench.tokens : kDepth),
        window_(depth_ / kShorter),
        tokens_(bench.text_tokens != 0 ? bench.text_tokens : kWindows * window_) {}

  base::Result<std::vector<Cell>> cells() override {
    if (bench_.file.empty()) return base::fail("quant needs a text: --file TEXT");
    KVICK_TRY(const std::string text, base::read_text(bench_.file));
    KVICK_TRY(engine_, model_of(bench_, "quant"));
    text_ = engine_->tokenizer().encode(text, true, false);
    KVICK_TRY_VOID(limit_sizes());
    std::vector<Cell> cells;
    for (const char* type : kTypes)
      cells.push_back(
          {.key = type,
           .what = {
               {"kv_type", type}, {"window", window_}, {"tokens", tokens_}, {"depth", depth_}}});
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(const engine::KvOptions kv,
              engine::parse_kv_options("", cell.what["kv_type"].get<std::string>()));
    KVICK_TRY(const engine::Perplexity ppl,
              engine::perplexity(*engine_, text_,
                                 {.window = window_,
                                  .most = tokens_,
                                  .kv = kv,
                                  .against = engine::parse_kv_options("", "f16").value()}));
    const engine::Case decode = {engine::Phase::kDecode, kDecode, depth_, 1};
    KVICK_TRY(const std::vector<engine::Measurement> speed,
              engine::measure_speed(*engine_, {&decode, 1}, {.kv = kv, .repeats = 3}));
    return Json{{"perplexity", ppl.perplexity}, {"f16_perplexity", ppl.reference_perplexity},
                {"kl_mean", ppl.kl_mean},       {"top1_agreement", ppl.top1_agreement},
                {"kv_bytes", ppl.kv_bytes},     {"decode_tok_s", engine::median(speed[0].tok_s)}};
  }

  Findings findings(std::span<const Measured> all) override {
    double f16 = 0;
    for (const Measured& one : all)
      if (one.cell.key == "f16") f16 = one.median("decode_tok_s");
    Findings findings;
    Table table = {.title = fmt::format("Windows of {} tokens, {} tokens; decode at depth {}",
                                        window_, tokens_, depth_),
                   .columns = {"type", "perplexity", "against f16 %", "KL mean", "top-1 %",
                               "cache MB", "decode tok/s", "against f16"},
                   .rows = {}};
    Chart chart = {.name = "quant",
                   .title = "Decode speed by element type of keys and values",
                   .x_label = "--kv-type",
                   .y_label = fmt::format("tokens/s at depth {}", depth_),
                   .series = {{.name = "decode", .points = {}}},
                   .bars = {}};
    findings.summary = Json::object();
    for (const Measured& one : all) {
      const double worse = 100 * (one.median("perplexity") / one.median("f16_perplexity") - 1);
      const double speed = one.median("decode_tok_s");
      table.rows.push_back({one.cell.key, fmt::format("{:.3f}", one.median("perplexity")),
                            fmt::format("{:+.2f}", worse),
                            fmt::format("{:.5f}", one.median("kl_mean")),
                            fmt::format("{:.2f}", 100 * one.median("top1_agreement")),
                            fmt::format("{:.2f}", one.median("kv_bytes") / 1e6),
                            fmt::format("{:.1f}", speed), fmt::format("{:.2f}", speed / f16)});
      findings.summary[one.cell.key] = {{"perplexity_against_f16_percent", worse},
                                        {"speed_against_f16", speed / f16}};
      chart.bars.push_back(one.cell.key);
      chart.series[0].points.push_back({0, speed});
    }
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  // Limits the sizes to what the model's context and the text have, so that cells and tables say
  // what is measured. Errors: the context is less than the user asked for, or too short to time.
  base::Status<> limit_sizes() {
    const uint32_t context = engine_->model().config().context;
    KVICK_TRY(const uint32_t longest, context_of(bench_, *engine_, kDepth));
    if (context <= kDecode)
      return base::fail("a context of {} tokens is too short to time", context);
    depth_ = std::min(longest, context - kDecode);
    tokens_ = static_cast<uint32_t>(std::min<size_t>(tokens_, text_.size()));
    window_ = std::min({window_, context, tokens_});
    return base::Done{};
  }

  Bench bench_;
  uint32_t depth_, window_, tokens_;  // tokens before the decode, of a window, and of the text
  engine::Engine* engine_ = nullptr;
  std::vector<engine::Token> text_;
};

}  // namespace

std::unique_ptr<Experiment> make_quant(const Bench& bench) {
  return std::make_unique<Quant>(bench);
}

}  // namespace kvick::lab
