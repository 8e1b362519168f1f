#pragma once

#include <nlohmann/json_fwd.hpp>

namespace kvick::cli {

// Prints a command's result to stdout, on one line. Bytes that are not UTF-8, as paths may have,
// become replacement characters, because JSON cannot hold them.
void print_json(const nlohmann::ordered_json& json);

}  // namespace kvick::cli
