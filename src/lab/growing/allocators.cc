// allocators: a whole model writes a context of N tokens under each way of growing (BMC's Figures
// 4, 10 and 14, with the parts of its Table IV, on one model). Sampled: see sampled_decode.h.

#include <map>

#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

// All ways use rows of float32, so strategies and attention are compared on the same bytes.
constexpr Way kWays[] = {{"iterative", "bmm"},    {"upfront", "bmm"},     {"bmc:r=auto", "bmm"},
                         {"virtual", "bmm"},      {"iterative", "fused"}, {"upfront", "fused"},
                         {"bmc:r=auto", "fused"}, {"virtual", "fused"},   {"paged", "fused"}};

// All depths of one way.
struct Group {
  std::string strategy, attention;
  std::vector<const Measured*> cells;
  DecodeSeconds seconds;
};

class Allocators final : public WholeContext {
 public:
  explicit Allocators(const Bench& bench) : WholeContext(bench, "allocators", kWays) {}

  Findings findings(std::span<const Measured> all) override {
    const std::vector<Group> groups = groups_of(all);
    double iterative = 0, upfront = 0;
    for (const Group& group : groups) {
      if (group.attention != "bmm") continue;
      if (group.strategy == "iterative") iterative = group.seconds.all();
      if (group.strategy == "upfront") upfront = group.seconds.all();
    }
    Findings findings;
    Table table = {
        .title = fmt::format("{} sequences write {} tokens each, rows of f32; {}; the "
                             "ratios are to iterative and upfront with bmm",
                             batch_, tokens_, sampling_note(kDepths)),
        .columns = {"strategy", "attention", "tokens a growth", "growing s", "computing s",
                    "compiling s", "all s", "tok/s", "iterative / it", "upfront / it"},
        .rows = {}};
    Json rows = Json::array();
    for (const Group& group : groups) {
      const double seconds = group.seconds.all();
      table.rows.push_back(row_of(group, iterative, upfront));
      rows.push_back({{"strategy", group.strategy},
                      {"attention", group.attention},
                      {"all_s", seconds},
                      {"tok_s", tok_s(seconds)},
                      {"faster_than_iterative", iterative / seconds},
                      {"faster_than_upfront", upfront / seconds}});
    }
    findings.summary = {{"tokens", tokens_}, {"batch", batch_}, {"ways", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(chart_of(groups));
    return findings;
  }

 private:
  double tok_s(double seconds) const {
    return static_cast<double>(uint64_t{tokens_} * batch_) / seconds;
  }

  std::vector<Group> groups_of(std::span<const Measured> all) const {
    std::vector<Group> groups;
    for (const Way& way : kWays) {
      Group group = {.strategy = way.spec, .attention = way.attention, .cells = {}};
      group.cells = matching(all, {{"strategy", way.spec}, {"attention", way.attention}});
      group.seconds = sum_over(group.cells, tokens_);
      groups.push_back(std::move(group));
    }
    return groups;
  }

  std::vector<std::string> row_of(const Group& group, double iterative, double upfront) const {
    const DecodeSeconds& s = group.seconds;
    const auto seconds = [](double value) { return fmt::format("{:.3f}", value); };
    const double growth = group.cells.empty() ? 0 : group.cells[0]->median("growth_tokens");
    return {group.strategy,
            group.attention,
            fmt::format("{:.0f}", growth),
            seconds(s.begin),
            seconds(s.forward + s.commit),
            seconds(s.compile),
            seconds(s.all()),
            fmt::format("{:.1f}", tok_s(s.all())),
            fmt::format("{:.2f}", iterative / s.all()),
            fmt::format("{:.2f}", upfront / s.all())};
  }

  static Chart chart_of(const std::vector<Group>& groups) {
    Chart chart = {.name = "allocators",
                   .title = "Where the time of a whole model goes under each way of growing",
                   .x_label = "strategy (*: fused attention, else bmm)",
                   .y_label = "seconds",
                   .series = {{.name = "computing", .points = {}},
                              {.name = "growing", .points = {}},
                              {.name = "compiling", .points = {}}},
                   .bars = {}};
    for (const Group& group : groups) {
      chart.bars.push_back(group.strategy.substr(0, group.strategy.find(':')) +
                           (group.attention == "bmm" ? "" : "*"));
      const double parts[] = {group.seconds.forward + group.seconds.commit, group.seconds.begin,
                              group.seconds.compile};
      for (size_t i = 0; i < chart.series.size(); ++i)
        chart.series[i].points.push_back({static_cast<double>(chart.bars.size()), parts[i]});
    }
    return chart;
  }
};

}  // namespace

std::unique_ptr<Experiment> make_allocators(const Bench& bench) {
  return std::make_unique<Allocators>(bench);
}

}  // namespace kvick::lab
