// libFuzzer: parses arbitrary bytes as the body of POST /v1/responses. The items of an accepted
// request must mean the same when a client sends them again, as those do that keep the conversation
// themselves.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/responses/input_items.h"
#include "server/responses/item_list.h"
#include "server/responses/responses_request.h"

namespace {

namespace server = kvick::server;

server::OwnedResponses with_one_response() {
  server::OwnedResponses responses = {.store = std::make_shared<server::ResponseStore>(1 << 16)};
  responses.store->put(
      "resp_1", 0,
      {R"({"status":"completed","output":[{"id":"msg_1_0","type":"message","role":"assistant",
           "status":"completed","content":[{"type":"output_text","text":"a"}]}]})",
       R"([{"id":"msg_1_in0","type":"message","role":"user",
            "content":[{"type":"input_text","text":"q"}]}])"});
  return responses;
}

server::Json find_nothing(const std::string&) { return nullptr; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto body = server::parse_json(text);
  if (!body.ok()) return 0;
  server::UnknownFields unknown(false);
  const auto request = server::parse_responses(*body, with_one_response(), unknown);
  if (!request.ok()) {
    KVICK_CHECK(!request.error().message.empty(), "an error without a sentence");
    return 0;
  }
  KVICK_CHECK(!request->chat.messages.empty(), "a request without a question");
  KVICK_CHECK_EQ(request->chat.choices, 1U);
  const server::Json again = {{"input", request->items}};
  auto fields = server::Fields::of(again, "", unknown);
  const auto items = server::read_input(*fields, find_nothing);
  KVICK_CHECK(items.ok(), "items that are not taken again: {}", items.error().message);
  KVICK_CHECK(server::chat_messages("", *items) == server::chat_messages("", request->items),
              "items that say something else when they are sent again");
  (void)server::item_list(request->items, text.substr(0, text.find('\n')));
  (void)server::to_text(request->echo);
  return 0;
}
