#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::base {

// The whole text of a file.
Result<std::string> read_text(const std::string& path);

// Writes a file that appears whole or not at all. Error: what the system says.
Status<> write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace kvick::base
