#pragma once
// Writes answers in Ollama's JSON: one object, or a stream with one object per line.

#include <string>

#include "server/answer/answer_format.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::server {

inline constexpr std::string_view kJsonLines = "application/x-ndjson";

struct OllamaForm {
  std::string model;  // the model's name in the request
  bool chat = true;   // otherwise the form of /api/generate
};

// For plans with one choice. Omits a call that max_tokens cut off, because its arguments are no
// object. The tokenizer must outlive the format.
MakeFormat ollama_format(OllamaForm form, const text::Tokenizer& tokenizer);

// Returns the answer to a request without a question.
HttpResponse ollama_idle_answer(const OllamaForm& form, int64_t created, bool unloads, bool stream);

// Returns {"error": "sentence"} with the error's status and headers.
HttpResponse ollama_error(const ApiError& error);

// Formats a Unix time in seconds: "2026-01-31T12:00:00Z".
std::string rfc3339(int64_t unix_time);

}  // namespace kvick::server
