#pragma once
// The tools that a chat request offers to the model, and whether it must call one.

#include <string>
#include <vector>

#include "server/request/fields.h"

namespace kvick::server {

inline constexpr size_t kMostTools = 4096;  // of a request; agents defer most of long lists

struct Tools {
  enum class Choice { kNone, kAuto, kRequired };
  Json list;  // as the chat template gets them; null: none
  // Of the same form: may be called, but the model is told of them within the conversation.
  Json deferred = Json::array();
  std::vector<std::string> names;  // functions that may be called
  Choice choice = Choice::kNone;
  bool parallel = true;  // more than one call in an answer

  bool offered() const { return choice != Choice::kNone; }
  // Where a call is required, the response_format that makes the answer one: a JSON object with the
  // name and the arguments of a tool. Else null.
  Json response_format() const;
};

// Reads tools, tool_choice and parallel_tool_calls.
ApiResult<Tools> read_tools(Fields& fields);

}  // namespace kvick::server
