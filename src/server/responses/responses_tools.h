#pragma once
// Tools of the Responses API, in the form of OpenAI's chats.

#include "server/answer/tools.h"
#include "server/responses/namespaces.h"

namespace kvick::server {

struct ResponsesTools {
  Json list = Json::array();  // in the form of a chat's tools
  Namespaces namespaces;      // namespaces of the functions in the list
  Json choice;                // a chat's tool_choice; null: the default
  // The functions that may be called (allowed_tools); empty: all.
  std::vector<std::string> allowed;
};

// Reads tools and tool_choice. Tools other than functions and namespaces of functions count as
// unknown fields. Errors: unknown fields are refused, or tool_choice names one of these tools.
ApiResult<ResponsesTools> read_responses_tools(Fields& request, UnknownFields& unknown);

}  // namespace kvick::server
