#pragma once
// A conversation as a file: {"model": NAME, "messages": [{"role": ..., "content": ...}, ...]}.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace kvick::cli {

// Writes a conversation. Error: the system's reason.
base::Status<> write_conversation(const std::filesystem::path& path, const std::string& model,
                                  const nlohmann::ordered_json& messages);

// Returns the messages of a file. Errors: the file cannot be read, is larger than 64 MiB, is not
// JSON or does not hold messages.
base::Result<nlohmann::ordered_json> read_conversation(const std::filesystem::path& path);

}  // namespace kvick::cli
