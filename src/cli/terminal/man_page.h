#pragma once

#include <span>
#include <string>

#include "cli/terminal/command_text.h"

namespace kvick::cli {

// "kvick-train-distil": the name of a command's manual page, of the commands down to it.
std::string page_name(std::span<const CommandText* const> path);

// The manual page of the last command of a path, in roff; `version` is shown at its foot.
std::string man_page(std::span<const CommandText* const> path, const std::string& version);

}  // namespace kvick::cli
