#pragma once
// The body of POST /v1/responses.

#include <memory>

#include "server/openai/plan.h"
#include "server/responses/namespaces.h"
#include "server/responses/response_store.h"

namespace kvick::server {

// The store with the responses that a request may name, which also gets its own.
struct OwnedResponses {
  std::shared_ptr<ResponseStore> store;  // null: responses are not kept
  size_t owner = 0;                      // ApiKeys::owner() of the client
};

struct ResponsesRequest {
  ChatRequest chat;
  // The conversation before the answer: the previous response's items and the request's own.
  Json items;
  // The fields of the answer that repeat the request's.
  Json echo;
  Namespaces namespaces;  // namespaces of the functions that the model may call
  bool store = true;      // store the answer
};

// Reads the conversation as a chat's messages and other fields as a chat's, so that kvick's own
// fields work here too.
ApiResult<ResponsesRequest> parse_responses(const Json& body, const OwnedResponses& responses,
                                            UnknownFields& unknown);

// Plans like plan_chat(), with answers in the form of the Responses API, which go into the store.
ApiResult<Plan> plan_responses(ResponsesRequest request, OwnedResponses responses,
                               const PlanContext& context);

}  // namespace kvick::server
