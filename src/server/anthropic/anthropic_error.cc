#include "server/anthropic/anthropic_error.h"

namespace kvick::server {
namespace {

std::string_view type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

// Claude Code shortens the conversation if it sees these words.
std::string message_of(const ApiError& error) {
  if (error.code != "context_length_exceeded") return error.message;
  return "prompt is too long: " + error.message;
}

}  // namespace

Json anthropic_error_json(const ApiError& error) {
  return {{"type", "error"},
          {"error", {{"type", type_of(error.status)}, {"message", message_of(error)}}},
          {"request_id", nullptr}};
}

HttpResponse anthropic_error_response(const ApiError& error) {
  return {.status = error.status,
          .body = to_text(anthropic_error_json(error)),
          .headers = error.headers};
}

}  // namespace kvick::server
