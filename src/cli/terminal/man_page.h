#pragma once

#include <span>
#include <string>

#include "cli/terminal/command_text.h"

namespace kvick::cli {

// Returns the name of a command's manual page, such as "kvick-train-distil", from the path of
// commands down to it.
std::string page_name(std::span<const CommandText* const> path);

// Returns the manual page of a path's last command, in roff; `version` is shown at its foot.
std::string man_page(std::span<const CommandText* const> path, const std::string& version);

}  // namespace kvick::cli
