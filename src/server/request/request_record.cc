#include "server/request/request_record.h"

namespace kvick::server {
namespace {

constexpr size_t kMostFieldBytes = 64;  // clients choose the names of fields

}  // namespace

void RequestFacts::fail(const ApiError& wrong, bool own_words) {
  if (own_words || wrong.status >= 500) error = wrong.message;
  error_code = wrong.code;
  error_field = wrong.param.substr(0, kMostFieldBytes);
}

void RequestFacts::add(const engine::JobOutcome& outcome) {
  if (prompt_tokens == 0) times = outcome.times;
  prompt_tokens += outcome.prompt_tokens;
  cached_tokens += outcome.cached_tokens;
  answer_tokens += outcome.generated_tokens;
  preemptions += outcome.times.preemptions;
}

}  // namespace kvick::server
