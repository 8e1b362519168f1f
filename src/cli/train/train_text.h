#pragma once
// What the commands of kvick train that read a text with a model have in common.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options/engine_options.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {

struct TextFlags {
  EngineFlags engine;
  std::string file, output;

  // Returns the name of the text without its folder, which the written file records.
  std::string text_name() const;
};
// Adds the model flags and -f.
void add_text_flags(const Command& command, TextFlags& flags, const std::string& help = "the text");
// Adds -o, which must be given. help: such as "the file to write, NAME.kvp".
void add_output(const Command& command, TextFlags& flags, const std::string& help);

// An open model and the tokens of a text.
struct OpenText {
  std::unique_ptr<engine::Engine> engine;
  std::vector<engine::Token> tokens;
};
// Error: the file cannot be written, because its folder is missing or not writable, or because it
// is a folder itself.
base::Status<> check_output(const std::string& path);
// Reads the text, loads the model and tokenises the text. A text that cannot be read and an output
// that cannot be written are errors before the model is loaded and minutes are spent.
base::Result<OpenText> open_text(const TextFlags& flags, const Common& common);

using Report = std::function<void(uint64_t done, uint64_t total)>;  // of tokens
// Returns the Result of work(report). Calls of the report show `what` and a progress bar, unless
// quiet.
template <typename Work>
auto with_progress(const std::string& what, const Common& common, const Work& work) {
  Progress progress = stderr_progress(common.quiet);
  const Report report = [&](uint64_t done, uint64_t total) {
    progress.report(what, Unit::kTokens, done, total);
  };
  auto result = work(report);
  if (result.ok()) progress.finish();
  return result;
}

}  // namespace kvick::cli
