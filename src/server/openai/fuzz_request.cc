// libFuzzer: any bytes as the body of a request, the first of which says of which kind. What is
// taken keeps its own limits.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/openai/tool_calls.h"

namespace {

namespace server = kvick::server;

// A text in pieces of any size gives the same calls as in one.
void check_tool_calls(std::string_view text, const server::Tools& tools, bool whole_text) {
  server::ToolCallParser whole(tools), pieces(tools);
  server::ToolCallParser::Found a = whole.push(text), b;
  const auto add = [](server::ToolCallParser::Found& to, server::ToolCallParser::Found more) {
    to.content += more.content;
    for (server::ToolCall& call : more.calls) to.calls.push_back(std::move(call));
  };
  add(a, whole.finish(whole_text));
  for (const char& c : text) add(b, pieces.push({&c, 1}));
  add(b, pieces.finish(whole_text));
  KVICK_CHECK(a.content == b.content, "\"{}\" against \"{}\"", a.content, b.content);
  KVICK_CHECK_EQ(a.calls.size(), b.calls.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 2 && size < 4096) {
    server::Tools tools;
    tools.names = {"f", "g"};
    for (const auto choice : {server::Tools::Choice::kAuto, server::Tools::Choice::kRequired}) {
      tools.choice = choice;
      for (const bool whole : {false, true}) check_tool_calls(text, tools, whole);
    }
    return 0;
  }
  const auto body = server::parse_json(text);
  if (!body.ok()) return 0;
  server::UnknownFields unknown(false);
  if (data[0] % 3 == 0) {
    const auto chat = server::parse_chat(*body, unknown);
    if (!chat.ok()) return 0;
    KVICK_CHECK(chat->choices >= 1 && !chat->messages.empty(), "a request without a question");
    (void)server::to_text(chat->messages);
    (void)server::to_text(chat->response_format);
  } else {
    const auto completion = server::parse_completion(*body, unknown);
    if (completion.ok()) KVICK_CHECK(!completion->prompts.empty(), "a request without a prompt");
  }
  return 0;
}
