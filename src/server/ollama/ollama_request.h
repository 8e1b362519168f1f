#pragma once
// The bodies of Ollama's POST /api/chat and POST /api/generate.

#include <optional>
#include <string>

#include "server/openai/plan.h"

namespace kvick::server {

struct OllamaRequest {
  ChatRequest chat;        // its model is as the request names it; empty: the served one
  bool generates = false;  // it is for /api/generate, whose messages are made of prompt and system
  std::string prompt;      // of /api/generate
  bool raw = false;        // which goes to the model as it is
  std::string suffix;      // the answer stands between the prompt and this
  std::optional<bool> thinks;  // none: as the model does
  // False: there is nothing to answer. Ollama loads its model then, or unloads it.
  bool asks = false;
  bool unloads = false;
};

// context: the most tokens of a sequence, of a num_ctx that changes nothing.
ApiResult<OllamaRequest> parse_ollama_chat(const Json& body, uint32_t context,
                                           UnknownFields& unknown);
ApiResult<OllamaRequest> parse_ollama_generate(const Json& body, uint32_t context,
                                               UnknownFields& unknown);

// What the server says of itself in an answer.
struct OllamaServed {
  std::string model;    // as clients see it
  int64_t created = 0;  // Unix time, seconds
};

// Its answers are in Ollama's form; where there is nothing to answer, Plan::answer is set.
ApiResult<Plan> plan_ollama(OllamaRequest request, const PlanContext& context,
                            const OllamaServed& served);

}  // namespace kvick::server
