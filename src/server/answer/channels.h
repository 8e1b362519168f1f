#pragma once
// Answers in OpenAI's harmony format (gpt-oss; cookbook.openai.com, "OpenAI harmony response
// format"). An answer is a list of messages, whose headers name their channel and recipient.
//
//   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
//   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>

#include <string>
#include <string_view>
#include <vector>

#include "server/answer/tool_calls.h"

namespace kvick::server {

class ChannelParser {
 public:
  struct Found {
    std::string reasoning, content;
    std::vector<ToolCall> calls;
    bool cut = false;  // the text ended within a call
  };
  // tools: null if none are offered; then a call counts as content.
  explicit ChannelParser(const Tools* tools) : tools_(tools) {}

  Found push(std::string_view text);
  // whole: the model ended the text.
  Found finish(bool whole);

 private:
  enum class Part { kHeader, kReasoning, kContent, kCall };
  void drain(Found& found, bool all);
  bool read_header(bool all);
  bool read_body(Found& found, bool all);
  void end_call(Found& found, bool whole);

  const Tools* tools_;  // outlives the parser
  std::string held_, name_, arguments_;
  Part part_ = Part::kHeader;
  bool first_ = true;  // no header has been read yet
  size_t calls_ = 0;
};

}  // namespace kvick::server
