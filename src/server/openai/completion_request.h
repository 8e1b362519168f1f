#pragma once
// The body of POST /v1/completions.

#include <string>
#include <variant>
#include <vector>

#include "server/openai/generation_request.h"

namespace kvick::server {

using Prompt = std::variant<std::string, std::vector<engine::Token>>;

struct CompletionRequest : GenerationRequest {
  std::vector<Prompt> prompts;  // a job each; at least one
  bool echo = false;            // the answer begins with the prompt
};

ApiResult<CompletionRequest> parse_completion(const Json& body, UnknownFields& unknown);

}  // namespace kvick::server
