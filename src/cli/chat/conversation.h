#pragma once
// A conversation as a file: {"model": NAME, "messages": [{"role": ..., "content": ...}, ...]}.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace kvick::cli {

// Error: what the system says.
base::Status<> write_conversation(const std::filesystem::path& path, const std::string& model,
                                  const nlohmann::ordered_json& messages);

// The messages. Errors: a file that cannot be read or is larger than 64 MiB, no JSON, messages that
// are none.
base::Result<nlohmann::ordered_json> read_conversation(const std::filesystem::path& path);

}  // namespace kvick::cli
