// kvick train distil: learns MAPLE's predictor for a model from a text. kvick train predictor:
// writes the predictor that was trained together with a model.

#include "cli/train/train_distil.h"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "distil/distil.h"

#include "cli/options/print_json.h"
#include "cli/train/mistakes.h"
#include "cli/train/train_predictor.h"
#include "engine/artifacts/predictor_file.h"
#include "train/from_model/start.h"

namespace kvick::cli {
namespace {

using nlohmann::ordered_json;

struct DistilFlags : PredictorFlags {
  std::string checkpoint;  // for kvick train predictor
  distil::DistilOptions options;
};

ordered_json to_json(const distil::Quality& quality) {
  return {{"mse", quality.mse},
          {"recall", quality.recall},
          {"mass", quality.mass},
          {"layer_mass", quality.layer_mass},
          {"best_mass", quality.best_mass}};
}

void print_result(const DistilFlags& flags, const distil::Distilled& made, const Common& common) {
  const kv::PredictorShape& shape = made.predictor.shape;
  const distil::Quality mean = distil::mean_of(made.layers);
  if (common.json) {
    ordered_json layers = ordered_json::array();
    for (const distil::Quality& layer : made.layers) layers.push_back(to_json(layer));
    const ordered_json json = {{"output", flags.output},    {"form", engine::form_name(shape.form)},
                               {"rank", shape.rank},        {"tokens", made.tokens},
                               {"held_out", made.held_out}, {"mean", to_json(mean)},
                               {"layers", layers}};
    print_json(json);
    return;
  }
  fmt::print("layer     MSE  recall    mass  best possible mass\n");
  const auto row = [](std::string_view name, const distil::Quality& quality) {
    fmt::print("{:>5} {:>7.4f} {:>7.4f} {:>7.4f} {:>7.4f}\n", name, quality.mse, quality.recall,
               quality.mass, quality.best_mass);
  };
  for (size_t i = 0; i < made.layers.size(); ++i) row(std::to_string(i), made.layers[i]);
  row("all", mean);
  fmt::print(
      "{}: {} values for each of {} KV heads, learnt from {} tokens and tested on {} others with "
      "{:g} of the rows\nuse: --kv-select maple:file={}\n",
      flags.output, shape.rank, shape.kv_heads, made.tokens, made.held_out,
      flags.options.evaluate.budget, flags.output);
}

base::Result<int> take_predictor(DistilFlags& flags, const Common& common) {
  const train::Checkpoint trained = train::read_checkpoint(flags.checkpoint);
  KVICK_TRY(kv::Predictor predictor, train::predictor_of(trained));
  KVICK_TRY(const OpenText text, open_text(flags, common));
  flags.options.window = flags.window_for(*text.engine, flags.options.window);
  KVICK_TRY(distil::Distilled made,
            distil::finish(*text.engine, std::move(predictor), text.tokens, flags.options));
  made.tokens = trained.data_tokens;
  KVICK_TRY_VOID(write_made(flags, made, *text.engine));
  print_result(flags, made, common);
  return 0;
}

base::Result<int> train_distil(DistilFlags& flags, const Common& common) {
  const auto learn = [&](const OpenText& text) {
    return distil::distil(*text.engine, text.tokens, flags.options);
  };
  KVICK_TRY(const distil::Distilled made,
            make_from_text(flags, flags.options, "distilling from", common, learn));
  print_result(flags, made, common);
  return 0;
}

}  // namespace

void add_predictor(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "predictor",
      "write the predictor that kvick train maple trained with a model, for --kv-select maple");
  auto flags = std::make_shared<DistilFlags>();
  command.add_option("checkpoint", flags->checkpoint, "FOLDER/checkpoint.kvc")
      .takes(ValueKind::kFile)
      .required();
  add_predictor_flags(
      command, *flags,
      "a text of which two windows are read, one to scale the predictor and one to test it");
  add_window(command, *flags, flags->options.window);
  command.runs(
      [&common, flags] { return mistakes_of([&] { return take_predictor(*flags, common); }); });
}

void add_distil(const Command& train, const Common& common) {
  const Command command = train.add_command("distil",
                                            "learn to predict, from a few values of each row, "
                                            "which rows a model will read: for --kv-select maple");
  auto flags = std::make_shared<DistilFlags>();
  distil::DistilOptions& options = flags->options;
  add_predictor_flags(command, *flags);
  command.add_choice<kv::PredictorForm>(
      "--form", options.form,
      {{"heads", kv::PredictorForm::kHeads},
       {"trained", kv::PredictorForm::kTrained},
       {"random", kv::PredictorForm::kRandom}},
      "what predictions are made from: heads, a layer's queries and keys; trained, its input; "
      "random, its input through a fixed random projection, as MAPLE defines it");
  command.add_choice<distil::Position>(
      "--position", options.position,
      {{"none", distil::Position::kNone}, {"rotary", distil::Position::kRotary}},
      "positions in predictions from a layer's input: rotary: predictions are rotated as the "
      "model's queries and keys are; none: positions are ignored, as in MAPLE (default: rotary, "
      "where the model has it)");
  command.add_option("--rank", options.rank,
                     "values that are kept of each key (default: a quarter of its own)");
  command.add_choice<distil::Loss>(
      "--loss", options.loss,
      {{"divergence", distil::Loss::kDivergence},
       {"centred", distil::Loss::kCentred},
       {"raw", distil::Loss::kRaw}},
      "loss of the predicted scores of a query: centred: mean squared error after the row's mean "
      "error is taken out; raw: mean squared error, as in MAPLE; divergence: KL divergence of the "
      "softmaxes");
  command.add_option("--seed", options.seed, "seed of everything random").shows_default();
  command.add_option("--tokens", options.most, "only the first N tokens (default: all)");
  add_window(command, *flags, options.window);
  command.runs([&common, flags] { return train_distil(*flags, common); });
}

}  // namespace kvick::cli
