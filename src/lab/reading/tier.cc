// tier: decode speed with keys and values in a slower tier, by context and bandwidth, with all rows
// or with those that a policy selects, relative to the roofline (MAPLE's Figure 3c). The roofline
// is the longer of two times: that of the work of fast memory and processor, and that of reading
// the planned bytes from the slower tier at its bandwidth. The tier is simulated: this machine's
// memory, slowed to a bandwidth. Rows are loaded from where they are; fast memory has frames for
// the fresh rows of a step only.

#include "kv/tier/tier.h"

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "lab/measure/least_step.h"
#include "lab/measure/sampled_decode.h"
#include "lab/measure/selections.h"
#include "lab/measure/sequence.h"

namespace kvick::lab {
namespace {

constexpr const char* kPolicies[] = {"quest", "maple"};
constexpr const char* kBudgets[] = {"0.25"};
constexpr const char* kBandwidths[] = {"0.5GB/s", "1GB/s", "2GB/s", "4GB/s"};
constexpr const char* kInMemory = "in memory";
constexpr uint32_t kLongest = 8192;          // by default; at most the model's context
constexpr uint32_t kParts[] = {8, 4, 2, 1};  // contexts: the longest divided by these
constexpr uint32_t kWarm = 2, kTimed = 12;   // steps; all within one unit of 16 tokens
constexpr uint32_t kChunk = 128;             // tokens per step that fills the cache

struct Setting {
  Selected selected;
  std::string bandwidth;
  uint32_t depth = 0;  // tokens in the cache before the timed steps
};

class TierSpeed final : public Experiment {
 public:
  explicit TierSpeed(const Bench& bench) : bench_(bench), least_(bench_) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(engine_, model_of(bench_, "tier"));
    KVICK_TRY_VOID(choose_depths());
    KVICK_TRY_VOID(choose_text());
    KVICK_TRY(const std::vector<Selected> policies, selections(bench_, kPolicies, kBudgets));
    std::vector<std::string> bandwidths = bench_.bandwidths;
    if (bandwidths.empty()) bandwidths.assign(std::begin(kBandwidths), std::end(kBandwidths));
    bandwidths.emplace_back(kInMemory);
    std::vector<Selected> selected = {full_attention()};
    selected.insert(selected.end(), policies.begin(), policies.end());
    std::vector<Cell> cells;
    settings_.clear();
    for (const std::string& bandwidth : bandwidths)
      for (const uint32_t depth : depths_)
        for (const Selected& one : selected) {
          settings_.push_back({one, bandwidth, depth});
          KVICK_TRY_VOID(check_setting(settings_.back()));
          cells.push_back(cell_of(settings_.back()));
        }
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    const auto setting = std::find_if(settings_.begin(), settings_.end(), [&](const Setting& one) {
      return cell_of(one).key == cell.key;
    });
    KVICK_TRY(const engine::KvOptions kv, options_for(*setting));
    KVICK_TRY(OneSequence sequence, OneSequence::open(*engine_, kv));
    const std::span<const engine::Token> tokens = text_;
    KVICK_TRY_VOID(sequence.read_in_steps(tokens.first(setting->depth), kChunk));
    uint32_t at = setting->depth;
    for (uint32_t i = 0; i < kWarm; ++i) KVICK_TRY_VOID(sequence.read(tokens.subspan(at++, 1)));
    const kv::Usage before = sequence.usage();
    const double start = base::steady_seconds();
    for (uint32_t i = 0; i < kTimed; ++i) KVICK_TRY_VOID(sequence.read(tokens.subspan(at++, 1)));
    const double seconds = base::steady_seconds() - start;
    const kv::Usage after = sequence.usage();
    KVICK_TRY(const kv::Cost planned, engine_->cost(kv, {.tokens = at, .sequences = 1}));
    KVICK_TRY(const double least, least_seconds(kv, planned, *setting, seconds / kTimed));
    return Json{{"tok_s", kTimed / seconds},
                {"roofline_tok_s", 1 / least},
                {"slow_read_bytes", (after.slow_read_bytes - before.slow_read_bytes) / kTimed},
                {"planned_slow_read_bytes", planned.slow_read_bytes_per_token},
                {"read_bytes", (after.read_bytes - before.read_bytes) / kTimed},
                {"planned_read_bytes", planned.read_bytes_per_token}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Decode, one sequence of {}; slower tier simulated; MB "
                                        "read from it by a token; roofline: at most",
                                        stem_of(bench_.model_path)),
                   .columns = {"bandwidth", "tokens", "policy", "tok/s", "roofline tok/s",
                               "of full tok/s", "MB counted", "MB planned", "less than full %"},
                   .rows = {}};
    Json cases = Json::array();
    for (const Measured& one : all) add_row(all, one, table, cases);
    findings.summary = {{"cases", cases}};
    findings.tables.push_back(std::move(table));
    add_charts(cases, findings.charts);
    return findings;
  }

 private:
  base::Status<> choose_depths() {
    KVICK_TRY(const uint32_t longest, context_of(bench_, *engine_, kLongest));
    depths_.clear();
    // Whole units, so that the timed steps fill none.
    for (const uint32_t part : kParts)
      if (const uint32_t tokens = longest / part; tokens >= 2 * (kWarm + kTimed) + 16)
        depths_.push_back((tokens - kWarm - kTimed) / 16 * 16);
    if (depths_.empty()) return base::fail("a context of {} tokens is too short to time", longest);
    return base::Done{};
  }

  // Uses the tokens of the file or, without one, random tokens.
  base::Status<> choose_text() {
    const size_t most = depths_.back() + kWarm + kTimed;
    if (!bench_.file.empty()) {
      KVICK_TRY(text_, text_of(bench_, "tier"));
      if (text_.size() < most)
        return base::fail("{} has {} tokens; {} are needed", bench_.file, text_.size(), most);
      return base::Done{};
    }
    std::mt19937 random(1);
    text_.resize(most);
    for (engine::Token& token : text_)
      token = static_cast<engine::Token>(random() % engine_->model().config().vocab);
    return base::Done{};
  }

  // Returns the cache options of a setting.
  base::Result<engine::KvOptions> options_for(const Setting& setting) const {
    const uint32_t tokens = setting.depth + kWarm + kTimed;
    engine::KvOptions kv = options_of(setting.selected, tokens);
    if (setting.bandwidth == kInMemory) return kv;
    uint64_t fast = 0;
    for (const kv::Shape& shape : engine_->store_info(kv).groups) {
      const uint64_t pair = shape.row_bytes(false) + shape.row_bytes(true);
      fast += (kChunk + 2 * (kv::kTierPage / pair + 1)) * shape.token_bytes();
    }
    KVICK_TRY(kv.tier, kv::parse_spec(fmt::format("ram:access=load,fast={}", fast)));
    kv.tier->options["bandwidth"] = setting.bandwidth;
    KVICK_TRY_VOID(kv::read_tier(*kv.tier));
    return kv;
  }

  base::Status<> check_setting(const Setting& setting) const {
    KVICK_TRY(const engine::KvOptions kv, options_for(setting));
    return engine_->check_kv(kv);
  }

  Cell cell_of(const Setting& setting) const {
    return {.key = fmt::format("{} {} {} at {} {}", stem_of(bench_.model_path), setting.bandwidth,
                               setting.selected.label(), setting.depth, stem_of(bench_.file)),
            .what = {{"model", stem_of(bench_.model_path)},
                     {"bandwidth", setting.bandwidth},
                     {"policy", setting.selected.label()},
                     {"depth", setting.depth}}};
  }

  // Returns the roofline of one token, in seconds. seconds: the measured time of the token.
  base::Result<double> least_seconds(const engine::KvOptions& kv, const kv::Cost& planned,
                                     const Setting& setting, double seconds) {
    const double fast =
        least_.seconds(*engine_, kv, planned, setting.depth + kWarm + 1, 1, seconds);
    if (!kv.tier) return fast;
    KVICK_TRY(const kv::TierOptions tier, kv::read_tier(*kv.tier));
    return std::max(fast, static_cast<double>(planned.slow_read_bytes_per_token) / tier.bytes_s);
  }

  void add_row(std::span<const Measured> all, const Measured& one, Table& table,
               Json& cases) const {
    const Json& what = one.cell.what;
    const std::vector<const Measured*> full = matching(
        all, {{"bandwidth", what["bandwidth"]}, {"depth", what["depth"]}, {"policy", kFull}});
    if (full.empty() || one.runs.empty()) return;
    const double speed = one.median("tok_s"), counted = one.median("slow_read_bytes");
    const double ratio = speed / full[0]->median("tok_s");
    const double dense = full[0]->median("slow_read_bytes");
    const double less = dense > 0 ? 100 * (1 - counted / dense) : 0;
    table.rows.push_back({what["bandwidth"].get<std::string>(), what["depth"].dump(),
                          what["policy"].get<std::string>(), fmt::format("{:.1f}", speed),
                          fmt::format("{:.1f}", one.median("roofline_tok_s")),
                          fmt::format("{:.2f}", ratio), fmt::format("{:.3f}", counted / 1e6),
                          fmt::format("{:.3f}", one.median("planned_slow_read_bytes") / 1e6),
                          dense > 0 ? fmt::format("{:.1f}", less) : "-"});
    Json row = what;
    row["tok_s"] = speed;
    row["roofline_tok_s"] = one.median("roofline_tok_s");
    row["of_full"] = ratio;
    row["slow_read_bytes"] = counted;
    row["planned_slow_read_bytes"] = one.median("planned_slow_read_bytes");
    row["less_than_full_percent"] = less;
    cases.push_back(std::move(row));
  }

  // Adds one chart per bandwidth, over all contexts: each policy as measured and its roofline.
  static void add_charts(const Json& cases, std::vector<Chart>& charts) {
    for (const Json& row : cases) {
      const auto bandwidth = row["bandwidth"].get<std::string>();
      const std::string title = "Decode speed, slower tier: " + bandwidth;
      auto chart = std::find_if(charts.begin(), charts.end(),
                                [&](const Chart& one) { return one.title == title; });
      if (chart == charts.end())
        chart = charts.insert(chart, {.name = fmt::format("tier-{}", charts.size() + 1),
                                      .title = title,
                                      .x_label = "tokens in the cache",
                                      .y_label = "tokens/s; <=: at most, by the roofline",
                                      .log_x = true,
                                      .series = {},
                                      .bars = {}});
      const auto policy = row["policy"].get<std::string>();
      const double depth = row["depth"].get<double>();
      add_point(*chart, policy, false, {depth, row["tok_s"].get<double>()});
      add_point(*chart, policy + " <=", true, {depth, row["roofline_tok_s"].get<double>()});
    }
  }

  static void add_point(Chart& chart, const std::string& name, bool dashed, Point point) {
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const Series& one) { return one.name == name; });
    if (series == chart.series.end())
      series = chart.series.insert(series, {.name = name, .points = {}, .dashed = dashed});
    const auto behind = std::find_if(series->points.begin(), series->points.end(),
                                     [&](const Point& other) { return other.x > point.x; });
    series->points.insert(behind, point);
  }

  Bench bench_;
  engine::Engine* engine_ = nullptr;
  std::vector<engine::Token> text_;
  std::vector<uint32_t> depths_;
  std::vector<Setting> settings_;
  LeastStep least_;
};

}  // namespace

std::unique_ptr<Experiment> make_tier(const Bench& bench) {
  return std::make_unique<TierSpeed>(bench);
}

}  // namespace kvick::lab
