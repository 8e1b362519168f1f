#pragma once
// What a chat template takes of an answer when it comes back as an earlier message, and of a tool's
// result.

#include <string>

#include "text/template/probe.h"

namespace kvick::text {

struct MessageSyntax {
  bool offers_tools = true;  // the template tells the model of the tools that there are
  bool has_system = true;    // it takes a message of the system
  // The field for what the model thought: reasoning_content, reasoning, thinking, or content, which
  // then is a list of parts. Empty: the template leaves thoughts out.
  std::string thoughts = "reasoning_content";
  // The role of a tool's result. Empty: the template refuses results, or leaves them out.
  std::string result_role = "tool";
  // Of messages with calls.
  bool null_content = false;    // null where there is none, not ""
  bool text_arguments = false;  // JSON as text, not an object
};

MessageSyntax learn_message_syntax(const Probe& probe);

}  // namespace kvick::text
