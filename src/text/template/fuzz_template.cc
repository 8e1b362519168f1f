// The input is a template, which is rendered over a conversation with tools. Checked: it renders or
// is refused, within its limits. If the first byte is below 0x20, it chooses what the context
// omits.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/template/chat_template.h"

namespace {

using nlohmann::ordered_json;

const ordered_json& conversation() {
  static const ordered_json kConversation = ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief. \u00e9\u4e16\ud83d\ude00"},
      {"role": "user", "content": "Hi"},
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "abcdefgh1", "type": "function", "function": {"name": "f", "arguments": {"x": 1, "y": [2.5, null]}}}]},
      {"role": "tool", "content": "{}", "tool_call_id": "abcdefgh1"},
      {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image"}]}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
      {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  return kConversation;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view source(reinterpret_cast<const char*>(data), size);
  ordered_json context = conversation();
  if (!source.empty() && static_cast<unsigned char>(source[0]) < 0x20) {
    if (source[0] & 1) context.erase("tools");
    if (source[0] & 2) context["messages"].erase(0);
    if (source[0] & 4) context["add_generation_prompt"] = false;
    source.remove_prefix(1);
  }
  kvick::text::RenderOptions options;
  options.now = [] { return std::tm{}; };
  options.max_steps = 100'000;
  options.max_output_bytes = 1 << 20;
  options.max_memory_bytes = 8 << 20;
  auto parsed = kvick::text::ChatTemplate::parse(source);
  if (parsed.ok()) (void)parsed->render(context, options);
  return 0;
}
