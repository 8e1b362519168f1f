// growth: the time of the next token at each length of the context, under each way of growing
// (BMC's Figures 3 and 16, for a whole model). Sampled: see sampled_decode.h.

#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr Way kWays[] = {{"iterative", "bmm"}, {"upfront", "bmm"},   {"bmc:r=16", "bmm"},
                         {"bmc:r=64", "bmm"},  {"bmc:r=256", "bmm"}, {"bmc:r=auto", "bmm"},
                         {"virtual", "bmm"},   {"virtual", "fused"}, {"paged", "fused"}};

class Growth final : public WholeContext {
 public:
  explicit Growth(const Bench& bench) : WholeContext(bench, "growth", kWays) {}

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {
        .title = fmt::format("Milliseconds of the next token of {} sequences, rows of f32; {}",
                             batch_, sampling_note(kDepths)),
        .columns = {"strategy", "attention", "tokens a growth", "ms, first depth", "ms, last depth",
                    "last / first", "growing, last", "longest growing step"},
        .rows = {}};
    Json rows = Json::array();
    Chart mean = chart("growth-latency", "The next token, growth and compiling charged evenly");
    Chart spikes = chart("growth-spikes", "A step that grows, with all that it compiles");
    for (const Way& way : kWays) {
      const std::vector<const Measured*> depths = depths_of(all, way);
      if (depths.empty()) continue;
      table.rows.push_back(row_of(way, depths));
      rows.push_back({{"strategy", way.spec},
                      {"attention", way.attention},
                      {"first_s", depths.front()->median("step_s")},
                      {"last_s", depths.back()->median("step_s")},
                      {"growing_step_s", longest_of(depths)}});
      mean.series.push_back(line(name_of(way), depths, {"step_s"}));
      spikes.series.push_back(line(name_of(way), depths, {"growing_step_s"}));
    }
    findings.summary = {{"tokens", tokens_}, {"batch", batch_}, {"ways", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts = {std::move(mean), std::move(spikes), parts_of(all)};
    return findings;
  }

 private:
  static std::string name_of(const Way& way) {
    return std::string(way.spec) + (std::string_view(way.attention) == "bmm" ? "" : ", fused");
  }

  static std::vector<const Measured*> depths_of(std::span<const Measured> all, const Way& way) {
    return matching(all, {{"strategy", way.spec}, {"attention", way.attention}});
  }

  static double longest_of(const std::vector<const Measured*>& depths) {
    double longest = 0;
    for (const Measured* one : depths) longest = std::max(longest, one->median("growing_step_s"));
    return longest;
  }

  static std::vector<std::string> row_of(const Way& way,
                                         const std::vector<const Measured*>& depths) {
    const auto ms = [](double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); };
    const double first = depths.front()->median("step_s"), last = depths.back()->median("step_s");
    return {way.spec,
            way.attention,
            fmt::format("{:.0f}", depths.front()->median("growth_tokens")),
            ms(first),
            ms(last),
            fmt::format("{:.2f}", last / first),
            ms(depths.back()->median("begin_s")),
            ms(longest_of(depths))};
  }

  static Chart chart(const char* name, const char* title) {
    return {.name = name,
            .title = title,
            .x_label = "tokens in the context",
            .y_label = "ms a step of the batch",
            .series = {},
            .bars = {}};
  }

  // Returns the sum of those fields at each depth, in milliseconds.
  static Series line(std::string name, const std::vector<const Measured*>& depths,
                     std::initializer_list<const char*> fields) {
    Series series = {.name = std::move(name), .points = {}};
    for (const Measured* one : depths) {
      double seconds = 0;
      for (const char* field : fields) seconds += one->median(field);
      series.points.push_back({one->cell.what["depth"].get<double>(), 1e3 * seconds});
    }
    return series;
  }

  // Splits a step into updating the cache and the rest: Figure 3 for iterative, Figure 4 for
  // upfront.
  static Chart parts_of(std::span<const Measured> all) {
    Chart parts = chart("growth-parts", "Growing the cache and computing, attention by bmm");
    for (const char* spec : {"iterative", "upfront"}) {
      const std::vector<const Measured*> depths = depths_of(all, {spec, "bmm"});
      parts.series.push_back(line(fmt::format("{}, growing", spec), depths, {"begin_s"}));
      parts.series.push_back(
          line(fmt::format("{}, computing", spec), depths, {"forward_s", "commit_s"}));
      parts.series.push_back(line(fmt::format("{}, compiling", spec), depths, {"compile_s"}));
    }
    return parts;
  }
};

}  // namespace

std::unique_ptr<Experiment> make_growth(const Bench& bench) {
  return std::make_unique<Growth>(bench);
}

}  // namespace kvick::lab
