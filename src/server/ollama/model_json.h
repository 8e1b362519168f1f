#pragma once
// What Ollama's routes report of a served model.

#include <string>
#include <string_view>

#include "engine/core/engine.h"
#include "server/request/json.h"

namespace kvick::server {

// Returns the name with a tag after its last '/', by default ":latest": clients search the list of
// models for that.
std::string tagged_name(std::string_view name);
// Returns whether both names mean the same model, with or without ":latest".
bool same_model(std::string_view one, std::string_view other);

// Returns whether the chat template supports thoughts.
bool knows_thoughts(const engine::Engine& engine);

struct OllamaModel {
  const engine::Engine& engine;
  std::string name;      // the model's name for clients
  uint32_t context = 0;  // limit on the tokens of a sequence
  int64_t began = 0;     // start of the server, Unix time in seconds, reported as the model's age
  std::string parent = {};  // for an adapter: the model that it adapts
};

// Return an entry of GET /api/tags, an entry of GET /api/ps, and the answer to POST /api/show. The
// digest is ModelIdentity::weights, which distinguishes weights but is no hash of the file.
Json tag_json(const OllamaModel& model);
Json running_json(const OllamaModel& model);
Json show_json(const OllamaModel& model);
// Returns the entry of GET /api/tags for a model that is not loaded, whose file was not read yet.
Json absent_tag_json(const std::string& name, uint64_t bytes, int64_t began);

}  // namespace kvick::server
