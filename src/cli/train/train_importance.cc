// kvick train imatrix: measures the size of each linear layer's inputs, for kvick quantize.

#include "cli/train/train_importance.h"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "cli/options/engine_options.h"
#include "cli/terminal/progress.h"
#include "engine/eval/measure_importance.h"

namespace kvick::cli {
namespace {

struct ImportanceFlags {
  EngineFlags engine;
  std::string file, output;
  engine::ImportanceOptions options;
};

void print_result(const ImportanceFlags& flags, const quantize::Importance& importance,
                  size_t tokens, const Common& common) {
  // Counts experts that received no token: nothing is known about their columns.
  uint64_t unseen = 0;
  for (const auto& [name, sums] : importance.tensors)
    for (const float count : sums.tokens) unseen += count == 0;
  if (common.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"output", flags.output},
                                              {"tokens", tokens},
                                              {"tensors", importance.tensors.size()},
                                              {"matrices_without_tokens", unseen}}
                           .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: inputs of {} tensors over {} tokens\n", flags.output, importance.tensors.size(),
             tokens);
  if (unseen > 0)
    fmt::print(
        "{} matrices of experts saw no token, so all their columns count the same; a longer text "
        "reaches more of them\n",
        unseen);
  fmt::print("use: kvick quantize MODEL -o FILE --importance {}\n", flags.output);
}

base::Result<int> train_importance(ImportanceFlags& flags, const Common& common) {
  KVICK_TRY(const std::string text, base::read_text(flags.file));
  flags.engine.prompt_arithmetic = engine::PromptArithmetic::kExact;
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  const std::vector<engine::Token> tokens = engine->tokenizer().encode(text, false, false);
  Progress progress = stderr_progress(common.quiet);
  size_t read = 0;
  flags.options.text = std::filesystem::path(flags.file).filename().string();
  flags.options.progress = [&](uint64_t done, uint64_t total) {
    read = done;
    progress.report("reading " + flags.file, Unit::kTokens, done, total);
  };
  KVICK_TRY(const quantize::Importance importance,
            engine::measure_importance(*engine, tokens, flags.options));
  progress.finish();
  KVICK_TRY_VOID(quantize::write_importance(importance, flags.output));
  print_result(flags, importance, read, common);
  return 0;
}

}  // namespace

void add_importance(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "imatrix", "which columns of the weights count most on a text: for kvick quantize");
  auto flags = std::make_shared<ImportanceFlags>();
  add_model_flags(command, flags->engine);
  command.add_option("-f,--file", flags->file, "the text").takes(ValueKind::kFile).required();
  command
      .add_option("-o,--output", flags->output,
                  "the file to write, NAME.gguf, in the form that llama-imatrix writes")
      .takes(ValueKind::kFile)
      .required();
  command.add_option("--tokens", flags->options.most, "only the first N tokens (default: all)");
  command.add_option("--window", flags->options.window, "tokens that are read as one sequence")
      .shows_default()
      .in_range(1, 1 << 20);
  command.runs([&common, flags] { return train_importance(*flags, common); });
}

}  // namespace kvick::cli
