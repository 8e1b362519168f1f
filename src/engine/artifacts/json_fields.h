#pragma once
// Reads fields of the JSON files that are made for a model, with errors that name the field.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "engine/artifacts/identity.h"

namespace kvick::engine {

// Returns a file's JSON; discarded if it is not JSON or is nested more than 8 deep, which no such
// file is.
nlohmann::ordered_json parse_fields(std::string_view text);

// Errors, which name the field: it is missing or of another kind.
base::Result<uint64_t> count_in(const nlohmann::ordered_json& object, const char* key);
// As count_in, limited to 32 bits.
base::Result<uint32_t> number_in(const nlohmann::ordered_json& object, const char* key);
// A finite number that is not negative.
base::Result<double> amount_in(const nlohmann::ordered_json& object, const char* key);
base::Result<std::string> text_in(const nlohmann::ordered_json& object, const char* key);

// "model": {arch, layers, kv_heads, head_dim, weights}.
nlohmann::ordered_json identity_json(const ModelIdentity& model);
base::Result<ModelIdentity> identity_in(const nlohmann::ordered_json& object);
// Error: `made_for` is not `model`. path: the file; command: the one that makes it for another
// model.
base::Status<> check_identity(const std::string& path, const ModelIdentity& made_for,
                              const ModelIdentity& model, const char* command);

// Returns the text of a file of at most most_bytes bytes. Errors name the file and `what` it is.
base::Result<std::string> read_small_file(const std::string& path, const char* what,
                                          uintmax_t most_bytes);

}  // namespace kvick::engine
