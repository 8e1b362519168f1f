// kvick train kvzap: trains, on a text, the predictor of how much attention rows will receive.

#include "cli/train/train_kvzap.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "distil/kvzap.h"

#include "base/text_file.h"
#include "cli/models/models.h"
#include "cli/options/engine_options.h"
#include "cli/terminal/progress.h"
#include "engine/artifacts/predictor_file.h"

namespace kvick::cli {
namespace {

using nlohmann::ordered_json;

struct KvzapFlags {
  EngineFlags engine;
  std::string file, output;
  uint32_t window = 0;  // 0: options.window, or the model's context if that is less
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
    fmt::print("{}\n", json.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
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
  KVICK_TRY(const std::string text, base::read_text(flags.file));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  flags.options.window = flags.window != 0
                             ? flags.window
                             : std::min(flags.options.window, engine->model().config().context);
  const std::vector<engine::Token> tokens = engine->tokenizer().encode(text, false, false);
  Progress progress = stderr_progress(common.quiet);
  flags.options.progress = [&](uint64_t done, uint64_t total) {
    progress.report("reading " + flags.file, Unit::kTokens, done, total);
  };
  KVICK_TRY(const std::filesystem::path path, find_model(flags.engine.model));
  KVICK_TRY(const io::ModelFile weights, io::ModelFile::open(path.string()));
  KVICK_TRY(const distil::Scores made,
            distil::train_scores(*engine, weights, tokens, flags.options));
  progress.finish();
  const std::string name = std::filesystem::path(flags.file).filename().string();
  KVICK_TRY_VOID(
      engine::write_predictor(flags.output, distil::file_of(made, engine->identity(), name)));
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
  add_model_flags(command, flags->engine);
  command.add_option("-f,--file", flags->file, "the text").takes(ValueKind::kFile).required();
  command.add_option("-o,--output", flags->output, "the file to write, NAME.kvp")
      .takes(ValueKind::kFile)
      .required();
  command.add_option("--tokens", options.most, "only the first N tokens; 0: all").shows_default();
  command
      .add_option("--window", flags->window,
                  fmt::format("tokens that are read as one sequence (default: {}, or the model's "
                              "context if that is less)",
                              options.window))
      .in_range(2, 1 << 20);
  command
      .add_option("--ahead", options.ahead,
                  "count only the attention of tokens at least N later, because the newest rows "
                  "are kept anyway")
      .shows_default()
      .in_range(1, 1 << 18);
  command.runs([&common, flags] { return train_kvzap(*flags, common); });
}

}  // namespace kvick::cli
