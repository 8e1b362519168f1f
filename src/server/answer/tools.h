#pragma once
// The tools that a chat request offers to the model, and whether it must call one.

#include <string>
#include <vector>

#include "server/request/fields.h"

namespace kvick::server {

inline constexpr size_t kMostTools = 4096;  // per request; agents defer most of a long list

struct Tools {
  enum class Choice { kNone, kAuto, kRequired };
  Json list;  // as the chat template gets it; null: none
  // Same form as `list`. The model may call these tools, but learns of them within the
  // conversation.
  Json deferred = Json::array();
  std::vector<std::string> names;  // functions that may be called
  Choice choice = Choice::kNone;
  bool parallel = true;  // the answer may have more than one call

  bool offered() const { return choice != Choice::kNone; }
  // Returns the response_format for a required call: a JSON object with the name and the arguments
  // of a tool. Null if no call is required.
  Json response_format() const;
  // Returns the response_format of an answer that has the given one or is a call: where tools may
  // be called, a schema is only that of the last answer. The arguments may be any object, as in
  // calls of answers without a schema. Other formats are returned unchanged.
  Json or_call(const Json& format) const;
};

// Reads tools, tool_choice and parallel_tool_calls.
ApiResult<Tools> read_tools(Fields& fields);

}  // namespace kvick::server
