#pragma once

#include <string>

#include "cli/terminal/command_text.h"

namespace kvick::cli {

enum class Shell { kBash, kZsh, kFish };

// Returns the script with which a shell completes the program's commands, options and values.
std::string completion_script(const CommandText& program, Shell shell);

}  // namespace kvick::cli
