#pragma once
// Answers in Ollama's JSON: one object, or one a line.

#include <string>

#include "server/answer/answer_format.h"

namespace kvick::server {

inline constexpr std::string_view kJsonLines = "application/x-ndjson";

struct OllamaForm {
  std::string model;  // as the request names it
  bool chat = true;   // else the form of /api/generate
};

// One choice. A call that max_tokens cut off is left out: its arguments are no object.
MakeFormat ollama_format(OllamaForm form);

// Of a request that has nothing to answer.
HttpResponse ollama_idle_answer(const OllamaForm& form, int64_t created, bool unloads, bool stream);

// {"error": "sentence"}, with the error's status and headers.
HttpResponse ollama_error(const ApiError& error);

// "2026-01-31T12:00:00Z" of a Unix time in seconds.
std::string rfc3339(int64_t unix_time);

}  // namespace kvick::server
