// budget: how predictions of a text get worse when fewer rows are read, for each policy and budget
// (MAPLE's Figure 4, with perplexity and divergence instead of accuracy on benchmarks), and the
// bytes that a token then reads, counted and planned.

#include <algorithm>

#include "engine/eval/perplexity.h"
#include "lab/measure/selections.h"

namespace kvick::lab {
namespace {

constexpr const char* kBudgets[] = {"0.5", "0.25", "0.2", "0.15", "0.125"};
constexpr uint32_t kWindow = 2048;
constexpr uint32_t kWindows = 4;  // by default

class BudgetSweep final : public Experiment {
 public:
  explicit BudgetSweep(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(engine_, model_of(bench_, "budget"));
    KVICK_TRY(tokens_, text_of(bench_, "budget"));
    KVICK_TRY_VOID(choose_window());
    KVICK_TRY(selected_, selections(bench_, {}, kBudgets));
    std::vector<Cell> cells;
    for (const Selected& one : selected_) {
      KVICK_TRY_VOID(check(*engine_, one));
      cells.push_back({.key = fmt::format("{} {} {} window={} prompt={} tokens={} {}",
                                          stem_of(bench_.model_path), one.policy, one.budget,
                                          window_, bench_.prompt, most_, stem_of(bench_.file)),
                       .what = {{"policy", one.policy},
                                {"budget", one.budget},
                                {"model", stem_of(bench_.model_path)},
                                {"text", stem_of(bench_.file)},
                                {"window", window_},
                                {"prompt", bench_.prompt},
                                {"tokens", most_}}});
    }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    const auto one = std::find_if(selected_.begin(), selected_.end(), [&](const Selected& some) {
      return cell.what["policy"] == some.policy && cell.what["budget"] == some.budget;
    });
    const engine::KvOptions kv = options_of(*one, window_);
    const engine::KvOptions full = options_of(full_attention(), window_);
    KVICK_TRY(const engine::Perplexity ppl, engine::perplexity(*engine_, tokens_,
                                                               {.window = window_,
                                                                .prompt = bench_.prompt,
                                                                .most = most_,
                                                                .kv = kv,
                                                                .against = full}));
    const kv::Load load = {.tokens = window_, .sequences = 1};
    KVICK_TRY(const kv::Cost planned, engine_->cost(kv, load));
    KVICK_TRY(const kv::Cost all, engine_->cost(full, load));
    return Json{{"perplexity", ppl.perplexity},
                {"full_perplexity", ppl.reference_perplexity},
                {"kl_mean", ppl.kl_mean},
                {"kl_p99", ppl.kl_p99},
                {"top1_agreement", ppl.top1_agreement},
                {"predicted", ppl.tokens},
                {"read_bytes", ppl.kv_read_bytes_per_token},
                {"planned_read_bytes", planned.read_bytes_per_token},
                {"full_read_bytes", all.read_bytes_per_token},
                {"kv_bytes", ppl.kv_bytes}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("{}, windows of {} tokens{}; {} tokens; bytes are those "
                                        "that a window's last token reads",
                                        stem_of(bench_.file), window_, prompt_note(), most_),
                   .columns = {"policy", "budget %", "perplexity", "over full %", "KL mean",
                               "KL p99", "same token %", "MB read", "planned MB", "of full %"},
                   .rows = {}};
    std::vector<Chart> charts = charts_of();
    Json cases = Json::array();
    bool equal = true;
    double full = 0;
    for (const Measured& one : all) {
      full = one.median("full_perplexity");
      equal = equal && one.median("read_bytes") == one.median("planned_read_bytes");
      add_row(one, table, cases);
      add_points(cases.back(), charts);
    }
    for (Chart& chart : charts)
      for (Series& series : chart.series)
        std::sort(series.points.begin(), series.points.end(),
                  [](const Point& a, const Point& b) { return a.x < b.x; });
    findings.summary = {{"full_perplexity", full}, {"bytes_equal", equal}, {"cases", cases}};
    findings.tables.push_back(std::move(table));
    findings.charts = std::move(charts);
    return findings;
  }

 private:
  base::Status<> choose_window() {
    const uint32_t context = engine_->model().config().context;
    window_ = bench_.tokens != 0 ? bench_.tokens : std::min(kWindow, context);
    most_ = bench_.text_tokens != 0 ? bench_.text_tokens : kWindows * window_;
    most_ = static_cast<uint32_t>(std::min<size_t>(most_, tokens_.size()));
    if (window_ > context)
      return base::fail("a window of {} tokens was asked for, but the model has {}", window_,
                        context);
    if (most_ < window_)
      return base::fail(
          "{} tokens of text do not fill a window of {}: give more, or a smaller "
          "--ctx",
          most_, window_);
    if (bench_.prompt + 2 > window_)
      return base::fail("a prompt of {} tokens leaves nothing to predict in a window of {}",
                        bench_.prompt, window_);
    return base::Done{};
  }

  std::string prompt_note() const {
    return bench_.prompt == 0
               ? std::string()
               : fmt::format(", of which {} are read as a prompt, from all rows", bench_.prompt);
  }

  static std::vector<Chart> charts_of() {
    const auto chart = [](const char* name, const char* title, const char* y) {
      return Chart{.name = name,
                   .title = title,
                   .x_label = "rows that are read, % of all",
                   .y_label = y,
                   .series = {},
                   .bars = {}};
    };
    return {
        chart("budget", "Perplexity above full attention's", "%"),
        chart("budget-kl", "Divergence from full attention", "KL, nats a token"),
        chart("budget-agreement", "Tokens for which full attention says the same", "% of tokens")};
  }

  void add_row(const Measured& one, Table& table, Json& cases) const {
    const double perplexity = one.median("perplexity"), read = one.median("read_bytes");
    const double over = 100 * (perplexity / one.median("full_perplexity") - 1);
    const double share = 100 * read / one.median("full_read_bytes");
    const double percent = percent_of(one.cell.what["budget"].get<std::string>(), window_);
    const double agreed = 100 * one.median("top1_agreement");
    table.rows.push_back({one.cell.what["policy"].get<std::string>(), fmt::format("{:g}", percent),
                          fmt::format("{:.3f}", perplexity), fmt::format("{:+.2f}", over),
                          fmt::format("{:.5f}", one.median("kl_mean")),
                          fmt::format("{:.4f}", one.median("kl_p99")),
                          fmt::format("{:.2f}", agreed), fmt::format("{:.3f}", read / 1e6),
                          fmt::format("{:.3f}", one.median("planned_read_bytes") / 1e6),
                          fmt::format("{:.1f}", share)});
    cases.push_back({{"policy", one.cell.what["policy"]},
                     {"budget_percent", percent},
                     {"perplexity", perplexity},
                     {"over_full_percent", over},
                     {"kl_mean", one.median("kl_mean")},
                     {"same_token_percent", agreed},
                     {"read_bytes", read},
                     {"planned_read_bytes", one.median("planned_read_bytes")},
                     {"read_of_full_percent", share}});
  }

  static void add_points(const Json& row, std::vector<Chart>& charts) {
    constexpr const char* kValues[] = {"over_full_percent", "kl_mean", "same_token_percent"};
    const auto policy = row["policy"].get<std::string>();
    for (size_t i = 0; i < charts.size(); ++i) {
      std::vector<Series>& all = charts[i].series;
      auto series = std::find_if(all.begin(), all.end(),
                                 [&](const Series& one) { return one.name == policy; });
      if (series == all.end()) series = all.insert(series, {.name = policy, .points = {}});
      series->points.push_back(
          {row["budget_percent"].get<double>(), row[kValues[i]].get<double>()});
    }
  }

  Bench bench_;
  engine::Engine* engine_ = nullptr;
  std::vector<engine::Token> tokens_;
  std::vector<Selected> selected_;
  uint32_t window_ = 0, most_ = 0;
};

}  // namespace

std::unique_ptr<Experiment> make_budget(const Bench& bench) {
  return std::make_unique<BudgetSweep>(bench);
}

}  // namespace kvick::lab
