// kvick train start: converts a model file's weights to a checkpoint for kvick-train, which reads
// no model files itself.

#include "cli/train/train_start.h"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/models/models.h"
#include "cli/options/engine_options.h"
#include "cli/options/number_list.h"
#include "cli/options/print_json.h"
#include "cli/train/mistakes.h"
#include "engine/artifacts/predictor_file.h"
#include "model/core/config.h"
#include "train/from_model/start.h"

namespace kvick::cli {
namespace {

struct StartFlags {
  std::string model, layers, predictor, output;
};

base::Result<std::shared_ptr<const kv::Predictor>> read_predictor(const std::string& path,
                                                                  const io::ModelFile& file) {
  KVICK_TRY(const model::Config config, model::read_config(file));
  return engine::read_predictor(path,
                                {.arch = config.arch,
                                 .layers = config.layer_count(),
                                 .kv_heads = config.layers.front().kv_heads,
                                 .head_dim = config.layers.front().k_dim,
                                 .weights = engine::weights_of(file)},
                                config);
}

base::Result<int> write_start(const StartFlags& flags, const Common& common) {
  std::vector<uint32_t> layers;
  if (!flags.layers.empty() && !flags.predictor.empty())
    return base::fail("--predictor covers all layers of the model: leave --layers out");
  if (!flags.layers.empty()) {
    KVICK_TRY(layers, parse_numbers("--layers", flags.layers, {.low = 0, .high = 1023}));
  }
  KVICK_TRY(const std::filesystem::path path, find_model(flags.model));
  KVICK_TRY(const io::ModelFile file, io::ModelFile::open(path));
  KVICK_TRY(train::Checkpoint start, train::start_of(file, layers));
  if (!flags.predictor.empty()) {
    KVICK_TRY(const auto predictor, read_predictor(flags.predictor, file));
    KVICK_TRY_VOID(train::add_predictor(*predictor, start));
  }
  train::write_checkpoint(flags.output, start);
  const train::ModelSettings& model = start.settings.model;
  if (common.json)
    print_json(
        {{"output", flags.output}, {"layers", model.layers}, {"parameters", start.values.size()}});
  else
    fmt::print("{}: {} parameters in {} layers\n", flags.output, start.values.size(), model.layers);
  return 0;
}

}  // namespace

void add_start(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "start", "a model's weights as a checkpoint to train on: --start of lm, draft and maple");
  auto flags = std::make_shared<StartFlags>();
  command.add_option("-m,--model", flags->model, "the model, of llama's architecture")
      .takes(ValueKind::kModel)
      .required();
  command.add_option("--layers", flags->layers,
                     "only these of its layers, such as 0,29 (default: all)");
  command
      .add_option("--predictor", flags->predictor,
                  "a predictor of kvick train distil, for kvick train maple")
      .takes(ValueKind::kFile);
  command.add_option("-o,--output", flags->output, "the file to write, NAME.kvc")
      .takes(ValueKind::kFile)
      .required();
  command.runs(
      [&common, flags] { return mistakes_of([&] { return write_start(*flags, common); }); });
}

}  // namespace kvick::cli
