#pragma once
// The form in which a chat template expects earlier answers and tool results among the messages of
// a conversation.

#include <string>

#include "text/template/probe.h"

namespace kvick::text {

struct MessageSyntax {
  bool offers_tools = true;  // the template lists the available tools
  bool has_system = true;    // it accepts a system message
  // The field for reasoning: reasoning_content, reasoning or thinking; or content, which then is a
  // list of parts. Empty: the template omits reasoning.
  std::string thoughts = "reasoning_content";
  // The role of a tool result. Empty: the template refuses or omits results.
  std::string result_role = "tool";
  // For messages with tool calls.
  bool null_content = false;    // absent content is null, not ""
  bool text_arguments = false;  // arguments are JSON text, not an object
};

MessageSyntax learn_message_syntax(const Probe& probe);

}  // namespace kvick::text
