#pragma once
// What Ollama's routes say of a model that is served.

#include <string>
#include <string_view>

#include "engine/core/engine.h"
#include "server/request/json.h"

namespace kvick::server {

// The name with a tag behind its last '/', by default ":latest": clients look for it in the list of
// models.
std::string tagged_name(std::string_view name);
// Whether both name one model, with ":latest" or without.
bool same_model(std::string_view one, std::string_view other);

// Whether the chat template knows of thoughts.
bool knows_thoughts(const engine::Engine& engine);

struct OllamaModel {
  const engine::Engine& engine;
  std::string name;         // as clients see it
  uint32_t context = 0;     // the most tokens of a sequence
  int64_t began = 0;        // the server, Unix time in seconds: what the model's age is
  std::string parent = {};  // of an adapter: the model that it adapts
};

// An entry of GET /api/tags and of GET /api/ps; POST /api/show. The digest is
// ModelIdentity::weights: it tells one set of weights from another, and is no hash of the file.
Json tag_json(const OllamaModel& model);
Json running_json(const OllamaModel& model);
Json show_json(const OllamaModel& model);
// The entry of GET /api/tags for a model that is not in memory: nobody has read its file yet.
Json absent_tag_json(const std::string& name, uint64_t bytes, int64_t began);

}  // namespace kvick::server
