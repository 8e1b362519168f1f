// libFuzzer: parses arbitrary bytes as the body of a request; the first byte chooses its kind.
// Accepted requests must keep the limits.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/answer/tool_calls.h"
#include "server/infill/infill_request.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/request/header_fields.h"
#include "text/template/last_message.h"

namespace {

namespace server = kvick::server;
namespace text_of = kvick::text;

// Checks that a text in pieces of one byte gives the same calls as in one piece.
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
  // Headers with arbitrary values never break a body.
  server::Json chosen = *body;
  const std::string line(text.substr(0, text.find('\n')));
  (void)server::add_header_fields({{"x-kvick-kv", line}, {"x-kvick-priority", line}}, chosen,
                                  unknown);
  if (data[0] % 3 == 0) {
    const auto chat = server::parse_chat(*body, unknown);
    if (!chat.ok()) return 0;
    KVICK_CHECK(chat->choices >= 1 && !chat->messages.empty(), "a request without a question");
    KVICK_CHECK(chat->max_tokens == 0 || chat->min_tokens <= chat->max_tokens, "no such length");
    std::string prompt(text);
    const auto cut = text_of::cut_behind_last_message(chat->messages, prompt);
    if (cut.ok()) KVICK_CHECK(text.starts_with(prompt), "a prompt that is no beginning of it");
    (void)server::to_text(chat->messages);
    (void)server::to_text(chat->response_format);
  } else {
    const auto completion = server::parse_completion(*body, unknown);
    if (completion.ok()) KVICK_CHECK(!completion->prompts.empty(), "a request without a prompt");
    const auto infill = server::parse_infill(*body, unknown);
    if (infill.ok()) KVICK_CHECK(infill->suffix.has_value(), "an answer between nothing");
  }
  return 0;
}
