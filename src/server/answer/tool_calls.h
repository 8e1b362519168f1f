#pragma once
// Finds tool calls in the text of an answer as it arrives. It knows the form of the chat template
// (text::AnswerSyntax), such as <tool_call>{"name": ..., "arguments": {...}}</tool_call>, and an
// answer that consists only of such an object or a list of them, where "parameters" may replace
// "arguments" (Llama 3). Instead of JSON the call may use Python's form, [NAME(KEY=VALUE, ...),
// ...].
//
// If the request requires a call, the whole answer is the call and never content, even if it is cut
// off.

#include <string>
#include <string_view>
#include <vector>

#include "server/answer/tools.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

struct ToolCall {
  std::string name;
  // A JSON object; if the call was cut off, the beginning of one, as written.
  std::string arguments;
};

class ToolCallParser {
 public:
  struct Found {
    std::string content;  // text outside calls, in order
    std::vector<ToolCall> calls;
    // the text ended within a call; the last of `calls` is that call if its name is complete
    bool cut = false;
  };
  explicit ToolCallParser(const Tools& tools, text::AnswerSyntax::Calls syntax = {})
      : tools_(tools), syntax_(std::move(syntax)) {}

  // Returns what is certain by now; text that may still become a call is held back. Text that looks
  // like a call but is not a valid call of one of the tools is returned as content, unchanged.
  Found push(std::string_view text);
  // Returns the rest. whole: the model ended the text. Otherwise the beginning of a call after its
  // opening mark counts as a call that was cut off, not as content.
  Found finish(bool whole);

 private:
  // kGrows: more text may follow. kCut: the text was cut off. kWhole: the model ended it.
  enum class Stage { kGrows, kCut, kWhole };
  void drain(Found& found, Stage stage);
  bool drain_tagged(Found& found, Stage stage);
  bool skip_between(bool all);
  void take_cut(std::string_view text, Found& found);
  void take(std::vector<ToolCall> calls, std::string_view source, Found& found);
  // Parses the calls in a text. Empty unless the text is nothing but calls of these tools.
  std::vector<ToolCall> calls_of(std::string_view text) const;
  // Parses the text between the marks of a call.
  std::vector<ToolCall> calls_inside(std::string_view text) const;
  bool offers(std::string_view name) const;
  bool begins_with_name(std::string_view text) const;
  bool may_begin_with_name(std::string_view text) const;

  const Tools& tools_;  // outlives the parser
  text::AnswerSyntax::Calls syntax_;
  std::string held_;
  bool began_ = false;       // a character other than white space has arrived
  bool bare_ = false;        // the answer began with { or [
  bool after_call_ = false;  // only white space has arrived since a call
  size_t calls_ = 0;         // calls found so far
};

}  // namespace kvick::server
