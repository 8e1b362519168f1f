// kvick train duo: measures, on a text, which KV heads need distant rows.

#include "cli/train/train_duo.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "distil/duo.h"

#include "cli/options/print_json.h"
#include "cli/train/train_predictor.h"

namespace kvick::cli {
namespace {

using nlohmann::ordered_json;

struct DuoFlags : PredictorFlags {
  distil::DuoOptions options = {.most = 32768};
};

ordered_json to_json(const DuoFlags& flags, const distil::HeadScores& made) {
  ordered_json layers = ordered_json::array();
  for (const kv::PredictorLayer& layer : made.predictor.layers) layers.push_back(layer.k);
  return {{"output", flags.output},
          {"tokens", made.tokens},
          {"sequences", made.sequences},
          {"window", flags.options.window},
          {"sinks", flags.options.near.sinks},
          {"recent", flags.options.near.recent},
          {"agreement", made.agreement},
          {"layers", layers}};
}

void print_table(const DuoFlags& flags, const distil::HeadScores& made) {
  fmt::print("layer    mean  lowest highest\n");
  for (size_t i = 0; i < made.predictor.layers.size(); ++i) {
    const std::vector<float>& heads = made.predictor.layers[i].k;
    const auto [lowest, highest] = std::minmax_element(heads.begin(), heads.end());
    const float sum = std::accumulate(heads.begin(), heads.end(), 0.0F);
    fmt::print("{:>5} {:>7.3f} {:>7.3f} {:>7.3f}\n", i, sum / static_cast<float>(heads.size()),
               *lowest, *highest);
  }
  fmt::print(
      "how much the output of a layer's KV heads changes if they see only {} sinks and {} newest "
      "rows: 0: not at all\n{}: {} sequences of {} tokens of text; of the quarter of the heads "
      "with "
      "the highest scores on half of them, {:.0f} % are the same on the other half\nuse: "
      "--kv-select "
      "duo:file={}\n",
      flags.options.near.sinks, flags.options.near.recent, flags.output, made.sequences,
      made.tokens, 100 * made.agreement, flags.output);
}

base::Result<int> train_duo(DuoFlags& flags, const Common& common) {
  const auto measure = [&](const OpenText& text) {
    return distil::measure_heads(*text.engine, text.tokens, flags.options);
  };
  KVICK_TRY(const distil::HeadScores made,
            make_from_text(flags, flags.options, "reading", common, measure));
  if (common.json)
    print_json(to_json(flags, made));
  else
    print_table(flags, made);
  return 0;
}

}  // namespace

void add_duo(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "duo", "measure which KV heads need distant rows, for --kv-select duo, which keeps theirs");
  auto flags = std::make_shared<DuoFlags>();
  distil::DuoOptions& options = flags->options;
  add_predictor_flags(command, *flags);
  command.add_option("--tokens", options.most, "only the first N tokens; 0: all").shows_default();
  add_window(command, *flags, options.window,
             "tokens of one sequence, which repeats its first eighth at its end");
  command.add_option("--sinks", options.near.sinks, "first rows that a head sees if it is limited")
      .shows_default()
      .in_range(0, 1 << 20);
  command.add_option("--recent", options.near.recent, "newest rows that it sees then")
      .shows_default()
      .in_range(1, 1 << 20);
  command.runs([&common, flags] { return train_duo(*flags, common); });
}

}  // namespace kvick::cli
