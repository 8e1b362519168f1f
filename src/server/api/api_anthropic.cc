// Anthropic's API.

#include "server/anthropic/anthropic_format.h"
#include "server/anthropic/messages_request.h"
#include "server/api/api.h"

namespace kvick::server {

ApiResult<Plan> Api::anthropic_messages(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(const ChatRequest request, parse_messages_request(call.body, unknown));
  KVICK_TRY(Plan plan, plan_chat(request, plan_context(call)));
  plan.format = anthropic_format();
  return plan;
}

// Counts the tokens of the same plan, so the count equals the one that an answer reports.
ApiResult<HttpResponse> Api::anthropic_count(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(const ChatRequest request, parse_count_request(call.body, unknown));
  KVICK_TRY(const Plan plan, plan_chat(request, plan_context(call)));
  return HttpResponse{.body = to_text({{"input_tokens", plan.jobs.front().prompt.size()}})};
}

}  // namespace kvick::server
