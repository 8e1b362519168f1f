#pragma once
// Answers in the form of OpenAI's Responses API: one object, or its events.

#include "server/answer/answer_format.h"
#include "server/responses/responses_request.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::server {

// What an answer repeats of its request, and where it goes.
struct ResponsesFrame {
  Json echo;                 // ResponsesRequest::echo
  Json items;                // ResponsesRequest::items; those without an id get one
  Namespaces namespaces;     // ResponsesRequest::namespaces
  OwnedResponses responses;  // no store: the answer is not kept
  const text::Tokenizer* tokenizer = nullptr;  // outlives what is made; counts thoughts
};

// Of plans with one choice.
MakeFormat responses_format(ResponsesFrame frame);

// "resp_0123456789abcdef" of the number as it stands in the ids of a response's items.
std::string response_id(std::string_view number);

}  // namespace kvick::server
