#include "cli/train/train_predictor.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvick::cli {

uint32_t PredictorFlags::window_for(const engine::Engine& model, uint32_t usual) const {
  return window != 0 ? window : std::min(usual, model.model().config().context);
}

void add_predictor_flags(const Command& command, PredictorFlags& flags,
                         const std::string& text_help) {
  add_text_flags(command, flags, text_help);
  add_output(command, flags, "the file to write, NAME.kvp");
}

void add_window(const Command& command, PredictorFlags& flags, uint32_t usual,
                const std::string& help) {
  command
      .add_option(
          "--window", flags.window,
          fmt::format("{} (default: {}, or the model's context if that is less)", help, usual))
      .in_range(2, 1 << 20);
}

}  // namespace kvick::cli
