#pragma once
// What the commands of kvick train that write a predictor file for a policy have in common.

#include <string>
#include <utility>

#include "cli/train/train_text.h"
#include "engine/artifacts/predictor_file.h"

namespace kvick::cli {

struct PredictorFlags : TextFlags {
  uint32_t window = 0;  // 0: not given

  // Returns the window that was given; by default `usual`, or the model's context if that is less.
  uint32_t window_for(const engine::Engine& model, uint32_t usual) const;
};
// Adds the model flags, -f and -o.
void add_predictor_flags(const Command& command, PredictorFlags& flags,
                         const std::string& text_help = "the text");
// Adds --window, whose default is that of window_for.
void add_window(const Command& command, PredictorFlags& flags, uint32_t usual,
                const std::string& help = "tokens that are read as one sequence");

// Writes what was made from a text to the output file. Made: a type of distil/ with a file_of.
template <typename Made>
base::Status<> write_made(const PredictorFlags& flags, const Made& made,
                          const engine::Engine& engine) {
  return engine::write_predictor(flags.output, file_of(made, engine.identity(), flags.text_name()));
}

// Reads the text and returns what make(const OpenText&) makes from it, a Result, after writing it
// to the output file. Sets the window and the progress of `options` first, which `make` reads.
// doing: such as "reading", which the progress bar shows before the name of the text.
template <typename Options, typename Make>
auto make_from_text(const PredictorFlags& flags, Options& options, const std::string& doing,
                    const Common& common, const Make& make)
    -> decltype(make(std::declval<const OpenText&>())) {
  KVICK_TRY(const OpenText text, open_text(flags, common));
  options.window = flags.window_for(*text.engine, options.window);
  const auto work = [&](const Report& report) {
    options.progress = report;
    return make(text);
  };
  KVICK_TRY(auto made, with_progress(doing + " " + flags.file, common, work));
  KVICK_TRY_VOID(write_made(flags, made, *text.engine));
  return made;
}

}  // namespace kvick::cli
