#pragma once
// Tools of the Responses API in the form of OpenAI's chats.

#include "server/answer/tools.h"
#include "server/responses/namespaces.h"

namespace kvick::server {

struct ResponsesTools {
  Json list = Json::array();  // as a chat's tools
  Namespaces namespaces;      // of those in the list that stand in one
  Json choice;                // as a chat's tool_choice; null: the model's
  // Of those the ones that may be called (allowed_tools); empty: all.
  std::vector<std::string> allowed;
};

// Reads tools and tool_choice. Tools that are no functions nor namespaces of them are this server's
// to ignore: they become unknown fields. Errors: they are refused, or tool_choice asks for one of
// them.
ApiResult<ResponsesTools> read_responses_tools(Fields& request, UnknownFields& unknown);

}  // namespace kvick::server
