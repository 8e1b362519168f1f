#pragma once
// The forms that calls of tools have beside JSON.

#include <optional>
#include <string_view>

#include "server/answer/tool_calls.h"

namespace kvick::server {

// Where calls begin in a text: at the mark of a call, or that of all calls before it.
struct Opening {
  bool found = false;
  size_t begin = 0, open = 0;  // of the marks, and of the call's own
  size_t unsure = 0;           // bytes at the text's end that may be the beginning of marks
};
Opening find_opening(std::string_view text, const text::AnswerSyntax::Calls& syntax);

// What stands in a text that begins with the opening mark.
struct Inside {
  std::string_view text;
  size_t past = 0;      // the call's bytes, with its marks
  bool closed = false;  // the closing mark has come, or the next call
};
// quotes: a closing mark within a string of the call's JSON is part of that string.
Inside inside_of(std::string_view text, const text::AnswerSyntax::Calls& syntax, bool quotes);

// None: it is not of that form. Form::kNamed; arguments must be a JSON object.
std::optional<ToolCall> named_call(std::string_view text, const text::AnswerSyntax::Calls& syntax);
// Form::kTagged. A value is what the tool's schema says: text, or JSON.
std::optional<ToolCall> tagged_call(std::string_view text, const text::AnswerSyntax::Calls& syntax,
                                    const Tools& tools);

}  // namespace kvick::server
