// kvick train kvzap: trains, on a text, the predictor of how much attention rows will receive.

#include "cli/train/train_kvzap.h"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "distil/kvzap.h"

#include "cli/models/models.h"
#include "cli/options/print_json.h"
#include "cli/train/train_predictor.h"

namespace kvick::cli {
namespace {

using nlohmann::ordered_json;

struct KvzapFlags : PredictorFlags {
  distil::KvzapOptions options = {.most = 65536};
};

ordered_json to_json(const distil::ScoreQuality& quality) {
  return {{"mse", quality.mse},
          {"explained", quality.explained},
          {"recall", quality.recall},
          {"mass", quality.mass}};
}

distil::ScoreQuality mean_of(const std::vector<distil::ScoreQuality>& layers) {
  distil::ScoreQuality mean;
  for (const auto field : {&distil::ScoreQuality::mse, &distil::ScoreQuality::explained,
                           &distil::ScoreQuality::recall, &distil::ScoreQuality::mass})
    for (const distil::ScoreQuality& layer : layers)
      mean.*field += layer.*field / static_cast<double>(layers.size());
  return mean;
}

void print_result(const KvzapFlags& flags, const distil::Scores& made, const Common& common) {
  const distil::ScoreQuality mean = mean_of(made.layers);
  if (common.json) {
    ordered_json layers = ordered_json::array();
    for (const distil::ScoreQuality& layer : made.layers) layers.push_back(to_json(layer));
    const ordered_json json = {{"output", flags.output}, {"ahead", flags.options.ahead},
                               {"tokens", made.tokens},  {"held_out", made.held_out},
                               {"mean", to_json(mean)},  {"layers", layers}};
    print_json(json);
    return;
  }
  fmt::print("layer explained  recall     use\n");
  const auto row = [](std::string_view name, const distil::ScoreQuality& quality) {
    fmt::print("{:>5} {:>9.3f} {:>7.3f} {:>7.3f}\n", name, quality.explained, quality.recall,
               quality.mass);
  };
  for (size_t i = 0; i < made.layers.size(); ++i) row(std::to_string(i), made.layers[i]);
  row("all", mean);
  fmt::print(
      "explained: share of the variance of the log of a row's attention that is predicted; recall: "
      "share of the most attended quarter of the rows that is kept; use: attention to the kept "
      "rows, as a share of the attention to that quarter\n{}: trained on {} tokens, tested on {} "
      "others\nuse: --kv-select kvzap:file={}\n",
      flags.output, made.tokens, made.held_out, flags.output);
}

base::Result<int> train_kvzap(KvzapFlags& flags, const Common& common) {
  const auto learn = [&](const OpenText& text) -> base::Result<distil::Scores> {
    KVICK_TRY(const std::filesystem::path path, find_model(flags.engine.model));
    KVICK_TRY(const io::ModelFile weights, io::ModelFile::open(path.string()));
    return distil::train_scores(*text.engine, weights, text.tokens, flags.options);
  };
  KVICK_TRY(const distil::Scores made,
            make_from_text(flags, flags.options, "reading", common, learn));
  print_result(flags, made, common);
  return 0;
}

}  // namespace

void add_kvzap(const Command& train, const Common& common) {
  const Command command = train.add_command("kvzap",
                                            "learn to predict how much attention rows will get, "
                                            "for --kv-select kvzap, which drops the rest");
  auto flags = std::make_shared<KvzapFlags>();
  distil::KvzapOptions& options = flags->options;
  add_predictor_flags(command, *flags);
  command.add_option("--tokens", options.most, "only the first N tokens; 0: all").shows_default();
  add_window(command, *flags, options.window);
  command
      .add_option("--ahead", options.ahead,
                  "count only the attention of tokens at least N later, because the newest rows "
                  "are kept anyway")
      .shows_default()
      .in_range(1, 1 << 18);
  command.runs([&common, flags] { return train_kvzap(*flags, common); });
}

}  // namespace kvick::cli
