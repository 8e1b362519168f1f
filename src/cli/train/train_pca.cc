// kvick train pca: the principal components of a model's keys, found on a text.

#include "cli/train/train_pca.h"

#include <fmt/format.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "distil/pca.h"

#include "cli/options/print_json.h"
#include "cli/train/train_predictor.h"

namespace kvick::cli {
namespace {

using nlohmann::ordered_json;

struct PcaFlags : PredictorFlags {
  distil::PcaOptions options;
};

ordered_json to_json(const distil::Quality& quality, double explained) {
  return {{"explained", explained},
          {"recall", quality.recall},
          {"mass", quality.mass},
          {"best_mass", quality.best_mass}};
}

void print_result(const PcaFlags& flags, const distil::Components& found, const Common& common) {
  const distil::Distilled& made = found.made;
  const distil::Quality mean = distil::mean_of(made.layers);
  double explained = 0;
  for (const double one : found.explained)
    explained += one / static_cast<double>(found.explained.size());
  if (common.json) {
    ordered_json layers = ordered_json::array();
    for (size_t i = 0; i < made.layers.size(); ++i)
      layers.push_back(to_json(made.layers[i], found.explained[i]));
    const ordered_json json = {{"output", flags.output},
                               {"keys", flags.options.rotated ? "rotated" : "plain"},
                               {"components", made.predictor.shape.rank},
                               {"tokens", made.tokens},
                               {"held_out", made.held_out},
                               {"mean", to_json(mean, explained)},
                               {"layers", layers}};
    print_json(json);
    return;
  }
  fmt::print("layer variance  recall    mass  best possible mass\n");
  const auto row = [](std::string_view name, const distil::Quality& quality, double share) {
    fmt::print("{:>5} {:>8.4f} {:>7.4f} {:>7.4f} {:>7.4f}\n", name, share, quality.recall,
               quality.mass, quality.best_mass);
  };
  for (size_t i = 0; i < made.layers.size(); ++i)
    row(std::to_string(i), made.layers[i], found.explained[i]);
  row("all", mean, explained);
  fmt::print(
      "{}: {} components of the keys of each of {} KV heads, found on {} tokens and tested on {} "
      "others with {:g} of the rows\nuse: --kv-select loki:file={}\n",
      flags.output, made.predictor.shape.rank, made.predictor.shape.kv_heads, made.tokens,
      made.held_out, flags.options.evaluate.budget, flags.output);
}

base::Result<int> train_pca(PcaFlags& flags, const Common& common) {
  const auto find = [&](const OpenText& text) {
    return distil::principal_components(*text.engine, text.tokens, flags.options);
  };
  KVICK_TRY(const distil::Components found,
            make_from_text(flags, flags.options, "reading", common, find));
  print_result(flags, found, common);
  return 0;
}

}  // namespace

void add_pca(const Command& train, const Common& common) {
  const Command command =
      train.add_command("pca", "the principal components of a model's keys: for --kv-select loki");
  auto flags = std::make_shared<PcaFlags>();
  distil::PcaOptions& options = flags->options;
  add_predictor_flags(command, *flags);
  command.add_option("--rank", options.rank,
                     "components that are kept (default: a quarter of a key's values)");
  command.add_choice<bool>(
      "--keys", options.rotated, {{"rotated", true}, {"plain", false}},
      "which keys: rotated: as they are cached; plain: before rotary position");
  command.add_option("--tokens", options.most, "only the first N tokens (default: all)");
  add_window(command, *flags, options.window);
  command.runs([&common, flags] { return train_pca(*flags, common); });
}

}  // namespace kvick::cli
