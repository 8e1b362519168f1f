// libFuzzer: parses arbitrary bytes as the body of one of Ollama's requests; the first byte chooses
// the request. Accepted requests must keep the limits.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/ollama/ollama_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace server = kvick::server;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto body = server::parse_json(text);
  if (!body.ok()) return 0;
  server::UnknownFields unknown(false);
  const bool generates = data[0] % 2 == 1;
  const auto request = generates ? server::parse_ollama_generate(*body, 512, unknown)
                                 : server::parse_ollama_chat(*body, 512, unknown);
  if (!request.ok()) return 0;
  const server::ChatRequest& chat = request->chat;
  KVICK_CHECK_EQ(request->generates, generates);
  KVICK_CHECK(!request->asks || !chat.messages.empty(), "a request without a question");
  KVICK_CHECK(chat.choices == 1 && chat.beams == 0, "more than one answer");
  KVICK_CHECK(chat.stop.size() <= server::kMostStops, "{} stops", chat.stop.size());
  (void)server::to_text(chat.messages);
  (void)server::to_text(chat.variables);
  (void)server::to_text(chat.response_format);
  return 0;
}
