// OpenAI's Responses API.

#include "server/api/api.h"
#include "server/request/fields.h"
#include "server/responses/item_list.h"

namespace kvick::server {
namespace {

ApiError no_response(const std::string& id) {
  return {.status = 404,
          .message = fmt::format("there is no response {}: it was not stored, was deleted, or was "
                                 "dropped for newer ones",
                                 in_quotes(id)),
          .code = "response_not_found"};
}

ApiResult<std::shared_ptr<const StoredResponse>> stored(const std::string& id,
                                                        const OwnedResponses& responses) {
  auto found = responses.store ? responses.store->find(id, responses.owner) : nullptr;
  if (found == nullptr) return no_response(id);
  return found;
}

}  // namespace

OwnedResponses Api::responses_of(const Call& call) const {
  return {.store = responses_, .owner = options_.keys.owner(call.request.authorization)};
}

ApiResult<Plan> Api::respond(const Call& call, UnknownFields& unknown) const {
  OwnedResponses responses = responses_of(call);
  KVICK_TRY(ResponsesRequest request, parse_responses(call.body, responses, unknown));
  return plan_responses(std::move(request), std::move(responses), plan_context(call));
}

// Counts the tokens of the same plan, so the count equals the one that a response reports.
ApiResult<HttpResponse> Api::count_input(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(const Plan plan, respond(call, unknown));
  return json_response(
      {{"object", "response.input_tokens"}, {"input_tokens", plan.jobs.front().prompt.size()}});
}

ApiResult<HttpResponse> Api::response(const Call& call) const {
  if (query_of(call.request.target, "stream") == "true")
    return bad_field("stream", "a stored response cannot be streamed; leave stream out");
  KVICK_TRY(const auto found, stored(call.argument, responses_of(call)));
  return HttpResponse{.body = found->response};
}

ApiResult<HttpResponse> Api::response_items(const Call& call) const {
  KVICK_TRY(const auto found, stored(call.argument, responses_of(call)));
  const auto items = parse_json(found->input);
  KVICK_CHECK(items.ok(), "a stored response cannot be read: {}", items.error().message);
  KVICK_TRY(const Json list, item_list(*items, call.request.target));
  return HttpResponse{.body = to_text(list)};
}

ApiResult<HttpResponse> Api::delete_response(const Call& call) const {
  const OwnedResponses responses = responses_of(call);
  if (responses.store == nullptr || !responses.store->erase(call.argument, responses.owner))
    return no_response(call.argument);
  return HttpResponse{
      .body = to_text({{"id", call.argument}, {"object", "response"}, {"deleted", true}})};
}

}  // namespace kvick::server
