#pragma once
// How a chat template expects an earlier answer and a tool's result as messages of the
// conversation.

#include <string>

#include "text/template/probe.h"

namespace kvick::text {

struct MessageSyntax {
  bool offers_tools = true;  // the template lists the available tools
  bool has_system = true;    // it accepts a system message
  // The field for reasoning: reasoning_content, reasoning, thinking, or content, which then is a
  // list of parts. Empty: the template leaves reasoning out.
  std::string thoughts = "reasoning_content";
  // The role of a tool's result. Empty: the template refuses results, or leaves them out.
  std::string result_role = "tool";
  // For messages with tool calls.
  bool null_content = false;    // null where there is none, not ""
  bool text_arguments = false;  // JSON as text, not an object
};

MessageSyntax learn_message_syntax(const Probe& probe);

}  // namespace kvick::text
