#pragma once
// The body of POST /v1/completions.

#include <vector>

#include "server/openai/generation_request.h"
#include "server/request/prompts.h"
#include "text/tokenizer/fill_in.h"

namespace kvick::server {

struct CompletionRequest : GenerationRequest {
  std::vector<Prompt> prompts;  // one job each; at least one
  bool echo = false;            // the answer begins with the prompt
  // If set, the answer is the text between the prompt, which must be text, and this suffix.
  std::optional<std::string> suffix;
  std::string suffix_field = "suffix";  // the name of the field that gave the suffix
  std::vector<text::FillInFile> files;  // other files of the project, for the prompt
};

ApiResult<CompletionRequest> parse_completion(const Json& body, UnknownFields& unknown);

}  // namespace kvick::server
