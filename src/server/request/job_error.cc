#include "server/request/job_error.h"

#include <algorithm>
#include <cmath>

namespace kvick::server {
namespace {

// Returns whole seconds, as the header Retry-After requires, at most 60: OpenAI's clients ignore a
// longer wait and use their own delays instead.
std::string retry_after(double seconds) {
  return fmt::format("{}", static_cast<int>(std::clamp(std::ceil(seconds), 1.0, 60.0)));
}

}  // namespace

ApiError job_error(const engine::Refusal& refusal, const std::string& prompt_field) {
  using Why = engine::Refusal::Why;
  ApiError error = {.message = refusal.message, .param = refusal.field};
  if (error.param == "prompt") error.param = prompt_field;
  switch (refusal.why) {
    case Why::kInvalid:
      break;
    case Why::kTooLong:
      error.code = "context_length_exceeded";
      break;
    case Why::kTooLarge:
      error.code = "too_large";
      break;
    case Why::kLost:
      error.status = 500;
      error.code = "cache_failed";
      break;
    case Why::kFailed:
      error.status = 500;
      error.code = "engine_failed";
      break;
    case Why::kBusy:
      error.status = 503;  // status 503 makes routers try another server
      error.code = "busy";
      error.headers = {{"Retry-After", retry_after(refusal.retry_seconds)}};
      break;
  }
  return error;
}

}  // namespace kvick::server
