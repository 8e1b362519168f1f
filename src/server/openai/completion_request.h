#pragma once
// The body of POST /v1/completions.

#include <vector>

#include "server/openai/generation_request.h"
#include "server/request/prompts.h"
#include "text/tokenizer/fill_in.h"

namespace kvick::server {

struct CompletionRequest : GenerationRequest {
  std::vector<Prompt> prompts;  // a job each; at least one
  bool echo = false;            // the answer begins with the prompt
  // The answer stands between a prompt of text and this.
  std::optional<std::string> suffix;
  std::string suffix_field = "suffix";  // that it came from
  std::vector<text::FillInFile> files;  // of its project
};

ApiResult<CompletionRequest> parse_completion(const Json& body, UnknownFields& unknown);

}  // namespace kvick::server
