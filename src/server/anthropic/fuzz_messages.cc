// libFuzzer: parses arbitrary bytes as the body of an Anthropic request or, if the first byte is
// odd, as the text of an answer in pieces of 1 to 7 bytes. Accepted requests keep the limits, and
// each event of a stream is JSON with a type.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/answer/choice.h"
#include "server/answer/template_messages.h"
#include "server/anthropic/anthropic_format.h"
#include "server/anthropic/messages_request.h"

namespace {

namespace server = kvick::server;
namespace text_of = kvick::text;

void check_event(std::string_view event) {
  const size_t data = event.find("\ndata: ");
  KVICK_CHECK(event.starts_with("event: ") && data != std::string_view::npos, "no event: {}",
              event);
  const auto json = server::parse_json(event.substr(data + 7));
  KVICK_CHECK(json.ok() && json->contains("type"), "no JSON: {}", event);
}

void check_events(std::string_view events) {
  for (size_t end = 0; (end = events.find("\n\n")) != std::string_view::npos;) {
    check_event(events.substr(0, end));
    events.remove_prefix(end + 2);
  }
  KVICK_CHECK(events.empty(), "an event without an end: {}", events);
}

void check_answer(std::string_view text) {
  server::Tools tools;
  tools.names = {"f", "g"};
  tools.choice = server::Tools::Choice::kAuto;
  const text_of::AnswerSyntax usual;
  server::Choice choice(0, {.tools = &tools, .syntax = &usual});
  const auto format = server::anthropic_format()({.number = 1, .model = "m", .prompt_tokens = 1});
  check_events(format->begin(0));
  size_t bytes = 1;
  for (size_t at = 0; at < text.size(); bytes = bytes % 7 + 1) {
    check_events(format->piece(choice.add({.text = std::string(text.substr(at, bytes))})));
    at += bytes;
  }
  kvick::engine::AnswerPiece last;
  last.finish = kvick::engine::Finish::kEnd;
  check_events(format->piece(choice.add(std::move(last))));
  check_events(format->end({}));
  const auto frame = format->frame({});
  // Not parse_json(): it limits the depth, and a tool call's input may use all of it before it is
  // nested in the message.
  KVICK_CHECK(server::Json::accept(frame.before + format->choice(choice.all()) + frame.behind),
              "a message that is no JSON");
}

void check_request(const server::Json& body) {
  server::UnknownFields unknown(false);
  const auto request = server::parse_messages_request(body, unknown);
  const auto counted = server::parse_count_request(body, unknown);
  if (!request.ok()) return;
  KVICK_CHECK(counted.ok(), "a request whose tokens cannot be counted");
  KVICK_CHECK(request->max_tokens >= 1 && request->choices == 1 && !request->messages.empty(),
              "a request without a question");
  KVICK_CHECK(request->messages == counted->messages, "other messages are counted");
  text_of::AnswerSyntax plain;  // a template without tools and tool results
  plain.messages.offers_tools = false;
  plain.messages.result_role = "";
  plain.calls.written = false;
  for (const text_of::AnswerSyntax& syntax : {text_of::AnswerSyntax(), plain})
    (void)server::to_text(
        server::template_messages(request->messages, request->tools.list, syntax));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    if (size < 4096) check_answer(text);
    return 0;
  }
  const auto body = server::parse_json(text);
  if (body.ok()) check_request(*body);
  return 0;
}
