// kvick train imatrix: measures the size of each linear layer's inputs, for kvick quantize.

#include "cli/train/train_importance.h"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/print_json.h"
#include "cli/train/train_text.h"
#include "engine/eval/measure_importance.h"

namespace kvick::cli {
namespace {

struct ImportanceFlags : TextFlags {
  engine::ImportanceOptions options;
};

void print_result(const ImportanceFlags& flags, const quantize::Importance& importance,
                  size_t tokens, const Common& common) {
  // Counts experts that received no token: nothing is known about their columns.
  uint64_t unseen = 0;
  for (const auto& [name, sums] : importance.tensors)
    for (const float count : sums.tokens) unseen += count == 0;
  if (common.json) {
    print_json({{"output", flags.output},
                {"tokens", tokens},
                {"tensors", importance.tensors.size()},
                {"matrices_without_tokens", unseen}});
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
  flags.engine.prompt_arithmetic = engine::PromptArithmetic::kExact;
  KVICK_TRY(const OpenText text, open_text(flags, common));
  size_t read = 0;
  flags.options.text = flags.text_name();
  const auto measure = [&](const Report& report) {
    flags.options.progress = [&](uint64_t done, uint64_t total) {
      read = done;
      report(done, total);
    };
    return engine::measure_importance(*text.engine, text.tokens, flags.options);
  };
  KVICK_TRY(const quantize::Importance importance,
            with_progress("reading " + flags.file, common, measure));
  KVICK_TRY_VOID(quantize::write_importance(importance, flags.output));
  print_result(flags, importance, read, common);
  return 0;
}

}  // namespace

void add_importance(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "imatrix", "which columns of the weights count most on a text: for kvick quantize");
  auto flags = std::make_shared<ImportanceFlags>();
  add_text_flags(command, *flags);
  add_output(command, *flags,
             "the file to write, NAME.gguf, in the form that llama-imatrix writes");
  command.add_option("--tokens", flags->options.most, "only the first N tokens (default: all)");
  command.add_option("--window", flags->options.window, "tokens that are read as one sequence")
      .shows_default()
      .in_range(1, 1 << 20);
  command.runs([&common, flags] { return train_importance(*flags, common); });
}

}  // namespace kvick::cli
