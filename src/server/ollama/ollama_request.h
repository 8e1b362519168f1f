#pragma once
// The bodies of Ollama's POST /api/chat and POST /api/generate.

#include <optional>
#include <string>

#include "server/openai/plan.h"

namespace kvick::server {

struct OllamaRequest {
  ChatRequest chat;            // chat.model: the name in the request; empty: the served model
  bool generates = false;      // for /api/generate, whose messages are made from prompt and system
  std::string prompt;          // prompt of /api/generate
  bool raw = false;            // the prompt goes to the model unchanged
  std::string suffix;          // the answer is the text between the prompt and this
  std::optional<bool> thinks;  // none: the model's default
  // False: the request has no question. Ollama then loads its model, or unloads it.
  bool asks = false;
  bool unloads = false;
};

// context: limit on the tokens of a sequence; a num_ctx equal to it changes nothing.
ApiResult<OllamaRequest> parse_ollama_chat(const Json& body, uint32_t context,
                                           UnknownFields& unknown);
ApiResult<OllamaRequest> parse_ollama_generate(const Json& body, uint32_t context,
                                               UnknownFields& unknown);

// What an answer says of the server.
struct OllamaServed {
  std::string model;    // the model's name for clients
  int64_t created = 0;  // Unix time, seconds
};

// Plans answers in Ollama's form. Plan::answer is set if the request has no question.
ApiResult<Plan> plan_ollama(OllamaRequest request, const PlanContext& context,
                            const OllamaServed& served);

}  // namespace kvick::server
