#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::base {

// Reads a whole file. Error: it cannot be opened, or is a folder.
Result<std::string> read_text(const std::string& path);

// Writes a file atomically: it appears whole or not at all. Error: the system's message.
Status<> write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace kvick::base
