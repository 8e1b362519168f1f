#include "server/anthropic/anthropic_format.h"

#include "server/anthropic/anthropic_error.h"
#include "server/net/sse.h"

namespace kvick::server {
namespace {

constexpr std::string_view kWhite = " \t\r\n";

std::string_view stop_reason(const ChoiceText& text) {
  if (text.finish_reason == "tool_calls") return "tool_use";
  if (text.finish == engine::Finish::kLength) return "max_tokens";
  return text.stop.empty() ? "end_turn" : "stop_sequence";
}

Json stop_json(const ChoiceText& text) {
  const std::string_view reason = stop_reason(text);
  return {{"stop_reason", reason},
          {"stop_sequence", reason == "stop_sequence" ? Json(text.stop) : Json()}};
}

// Anthropic's input_tokens counts only tokens that were not cached.
Json usage_json(const TokenCounts& counts) {
  return {{"input_tokens", counts.prompt - counts.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", counts.cached},
          {"output_tokens", counts.answer}};
}

Json input_json(const std::string& arguments) {
  auto parsed = parse_json(arguments);
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : Json::object();
}

// Writes an event, whose name is its type.
std::string event_of(std::string_view type, const Json& fields) {
  Json event = {{"type", type}};
  event.update(fields);
  return sse_event(type, to_text(event));
}

class AnthropicFormat final : public AnswerFormat {
 public:
  explicit AnthropicFormat(AnswerHead head)
      : head_(std::move(head)), id_(fmt::format("{:016x}", head_.number)) {}

  std::string_view prompt_field() const override { return "messages"; }
  HttpResponse error(const ApiError& error) const override {
    return anthropic_error_response(error);
  }

  // The choice says why it ended, so it writes the fields between `before` and `behind`.
  Frame frame(const AnswerEnd& end) override {
    std::string before = to_text(head_json());
    before.back() = ',';
    return {.before = std::move(before),
            .behind = ",\"usage\":" + to_text(usage_json(end.counts)) + "}"};
  }
  std::string choice(const ChoiceText& all) override {
    Json fields = {{"content", content_of(all)}};
    fields.update(stop_json(all));
    const std::string text = to_text(fields);
    return text.substr(1, text.size() - 2);  // without the braces
  }

  std::string begin(uint32_t /*choice*/) override {
    Json message = head_json();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = usage_json({.prompt = head_.prompt_tokens});
    return event_of("message_start", {{"message", std::move(message)}});
  }

  std::string piece(const ChoiceText& added) override {
    std::string out;
    add_thoughts(added.reasoning, out);
    add_text(added.content, out);
    for (size_t i = 0; i < added.calls.size(); ++i)
      add_call(added.calls[i], added.first_call + i, out);
    if (!added.finish_reason.empty()) stop_ = stop_json(added);
    return out;
  }

  std::string end(const AnswerEnd& end) override {
    if (end.error) return sse_event("error", to_text(anthropic_error_json(*end.error)));
    std::string out;
    close(out);
    out += event_of("message_delta", {{"delta", stop_}, {"usage", usage_json(end.counts)}});
    return out + event_of("message_stop", Json::object());
  }

 private:
  enum class Block { kNone, kThoughts, kText };

  Json head_json() const {
    return {
        {"id", "msg_" + id_}, {"type", "message"}, {"role", "assistant"}, {"model", head_.model}};
  }
  Json call_json(const ToolCall& call, size_t place, Json input) const {
    return {{"type", "tool_use"},
            {"id", fmt::format("toolu_{}_{}", id_, place)},
            {"name", call.name},
            {"input", std::move(input)}};
  }
  Json content_of(const ChoiceText& all) const {
    Json content = Json::array();
    if (!all.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", all.reasoning}, {"signature", ""}});
    if (all.content.find_first_not_of(kWhite) != std::string::npos)
      content.push_back({{"type", "text"}, {"text", all.content}});
    for (size_t i = 0; i < all.calls.size(); ++i)
      content.push_back(call_json(all.calls[i], i, input_json(all.calls[i].arguments)));
    return content;
  }

  std::string block_event(std::string_view type, const Json& fields) const {
    Json event = {{"index", blocks_}};
    event.update(fields);
    return event_of(type, event);
  }
  std::string delta(std::string_view type, const char* field, const std::string& text) const {
    return block_event("content_block_delta", {{"delta", {{"type", type}, {field, text}}}});
  }
  void open(Block block, Json first, std::string& out) {
    if (open_ == block) return;
    close(out);
    open_ = block;
    out += block_event("content_block_start", {{"content_block", std::move(first)}});
  }
  void close(std::string& out) {
    held_.clear();
    if (open_ == Block::kNone) return;
    if (open_ == Block::kThoughts) out += delta("signature_delta", "signature", "");
    stop_block(out);
  }
  void stop_block(std::string& out) {
    out += block_event("content_block_stop", Json::object());
    open_ = Block::kNone;
    ++blocks_;
  }

  void add_thoughts(const std::string& text, std::string& out) {
    if (text.empty()) return;
    open(Block::kThoughts, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
    out += delta("thinking_delta", "thinking", text);
  }
  // Adds text. White space alone opens no block: it is held until other text follows.
  void add_text(const std::string& text, std::string& out) {
    held_ += text;
    if (open_ != Block::kText && held_.find_first_not_of(kWhite) == std::string::npos) return;
    if (held_.empty()) return;
    std::string ready = std::exchange(held_, "");
    open(Block::kText, {{"type", "text"}, {"text", ""}}, out);
    out += delta("text_delta", "text", ready);
  }
  void add_call(const ToolCall& call, size_t place, std::string& out) {
    close(out);
    out += block_event("content_block_start",
                       {{"content_block", call_json(call, place, Json::object())}});
    out += delta("input_json_delta", "partial_json", call.arguments);
    stop_block(out);
  }

  const AnswerHead head_;
  const std::string id_;
  size_t blocks_ = 0;  // blocks that have ended, which is the index of the open or next one
  Block open_ = Block::kNone;
  std::string held_;  // white space before a text block that is not open yet
  Json stop_ = {{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
};

}  // namespace

MakeFormat anthropic_format() {
  return [](AnswerHead head) { return std::make_unique<AnthropicFormat>(std::move(head)); };
}

}  // namespace kvick::server
