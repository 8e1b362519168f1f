#pragma once
// The forms of tool calls other than JSON.

#include <optional>
#include <string_view>

#include "server/answer/tool_calls.h"

namespace kvick::server {

// Where calls begin in a text: at the opening mark of a call, or at the mark that opens a list of
// calls before it.
struct Opening {
  bool found = false;
  size_t begin = 0, open = 0;  // begin: offset of the first mark; open: of the call's own mark
  size_t unsure = 0;           // bytes at the end of the text that may be the beginning of a mark
};
Opening find_opening(std::string_view text, const text::AnswerSyntax::Calls& syntax);

// The content of a call in a text that begins with the call's opening mark.
struct Inside {
  std::string_view text;
  size_t past = 0;      // size of the call in bytes, with its marks
  bool closed = false;  // the closing mark, or the next call, has arrived
};
// quotes: ignore closing marks inside strings of the call's JSON or inside tagged values.
Inside inside_of(std::string_view text, const text::AnswerSyntax::Calls& syntax, bool quotes);

// Parses a call of Form::kNamed, whose arguments must be a JSON object. Nothing if the text has
// another form.
std::optional<ToolCall> named_call(std::string_view text, const text::AnswerSyntax::Calls& syntax);
// Parses a call of Form::kTagged. The tool's schema decides whether a value is text or JSON.
std::optional<ToolCall> tagged_call(std::string_view text, const text::AnswerSyntax::Calls& syntax,
                                    const Tools& tools);

}  // namespace kvick::server
