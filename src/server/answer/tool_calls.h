#pragma once
// Calls of tools in the text of an answer, as it grows: in the form that the chat template has for
// them (text::AnswerSyntax), such as <tool_call>{"name": ..., "arguments": {...}}</tool_call>, and
// an answer that is nothing but such an object or a list of them, with "parameters" too (Llama 3).
// In place of JSON there may be Python's form, [NAME(KEY=VALUE, ...), ...].
//
// Where the request requires a call, the answer is one and has no content, however far it came.

#include <string>
#include <string_view>
#include <vector>

#include "server/answer/tools.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object; the beginning of one, as written, if the call is cut off
};

class ToolCallParser {
 public:
  struct Found {
    std::string content;  // text that is no call, in order
    std::vector<ToolCall> calls;
    bool cut = false;  // the text ended within a call, which is the last one if its name came
  };
  explicit ToolCallParser(const Tools& tools, text::AnswerSyntax::Calls syntax = {})
      : tools_(tools), syntax_(std::move(syntax)) {}

  // What became certain: text that may still become a call is held back. What looks like a call but
  // is not the JSON of one of the tools is content, as it was written.
  Found push(std::string_view text);
  // The rest; the text has ended. whole: because the model ended it. Else the beginning of a call
  // behind its tag is a call that was cut off, and not content.
  Found finish(bool whole);

 private:
  // How sure it is what the text is.
  enum class Stage { kGrows, kCut, kWhole };
  void drain(Found& found, Stage stage);
  bool drain_tagged(Found& found, Stage stage);
  bool skip_between(bool all);
  void take_cut(std::string_view text, Found& found);
  void take(std::vector<ToolCall> calls, std::string_view source, Found& found);
  // None if the text is not a call of one of the tools.
  std::vector<ToolCall> calls_of(std::string_view text) const;
  // Of what stands between the marks.
  std::vector<ToolCall> calls_inside(std::string_view text) const;
  bool offers(std::string_view name) const;
  bool begins_with_name(std::string_view text) const;
  bool may_begin_with_name(std::string_view text) const;

  const Tools& tools_;  // outlives the parser
  text::AnswerSyntax::Calls syntax_;
  std::string held_;
  bool began_ = false;       // something that is not white space has come
  bool bare_ = false;        // the answer began with { or [
  bool after_call_ = false;  // nothing but white space has come since a call
  size_t calls_ = 0;         // found so far
};

}  // namespace kvick::server
