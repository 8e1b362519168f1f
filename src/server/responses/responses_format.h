#pragma once
// Writes answers in the form of OpenAI's Responses API: one object, or the events of a stream.

#include "server/answer/answer_format.h"
#include "server/responses/responses_request.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::server {

// The parts of an answer that come from its request, and where the answer is stored.
struct ResponsesFrame {
  Json echo;                 // ResponsesRequest::echo
  Json items;                // ResponsesRequest::items; items without an id get one
  Namespaces namespaces;     // ResponsesRequest::namespaces
  OwnedResponses responses;  // without a store the answer is not kept
  const text::Tokenizer* tokenizer = nullptr;  // counts tokens of thoughts; must outlive the format
};

// For plans with one choice.
MakeFormat responses_format(ResponsesFrame frame);

// Returns the id of a response, "resp_0123456789abcdef". number: as in the ids of its items.
std::string response_id(std::string_view number);

}  // namespace kvick::server
