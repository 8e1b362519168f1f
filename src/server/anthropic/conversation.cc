#include "server/anthropic/conversation.h"

#include <map>

#include "server/anthropic/blocks.h"
#include "server/anthropic/tool_results.h"

namespace kvick::server {
namespace {

using base::Done;

// Claude Code puts a block with this mark first, for Anthropic's billing. It differs in every
// request, so keeping it would defeat the prefix cache.
constexpr std::string_view kBillingMark = "x-anthropic-billing-header:";

class Builder {
 public:
  Builder(const Fields& request, const Tools& tools) : request_(request), results_(tools) {}

  ApiStatus add_system(const Json& given) {
    KVICK_TRY(const std::vector<std::string> texts, read_texts(request_, given, "system"));
    for (const std::string& text : texts)
      if (!text.starts_with(kBillingMark)) add_text("system", text);
    return Done{};
  }

  ApiStatus add_message(const Json& given, const std::string& path, bool last) {
    KVICK_TRY(Fields message, request_.inside(given, path));
    KVICK_TRY(const std::string role, required_string(message, "role"));
    if (role != "user" && role != "assistant" && role != "system")
      return bad_field(message.path("role"), "{} is {}; it must be user or assistant",
                       message.path("role"), in_quotes(role));
    const Json* content = message.find("content");
    if (content == nullptr)
      return bad_field(message.path("content"), "{} is missing", message.path("content"));
    KVICK_TRY_VOID(message.check_rest());
    KVICK_TRY(const size_t parts, add_content(role, *content, message.path("content")));
    // Other servers accept an empty beginning of the answer too.
    if (parts > 0 || (last && role == "assistant")) return Done{};
    if (role != "assistant" || !content->is_array())
      return bad_field(message.path("content"),
                       "{} is empty; write something or leave the "
                       "message out",
                       message.path("content"));
    // The model said nothing; the client sends this message again with every request.
    message_of(role);
    return Done{};
  }

  // path: the last message's name in errors.
  ApiResult<Conversation> take(const std::string& path) {
    Conversation out;
    if (is_last("assistant")) {
      const Json& last = messages_.back();
      if (last.contains("tool_calls"))
        return bad_field(path, "{} calls a tool; send its tool_result in the next message", path);
      if (last["content"] != "")
        out.end = engine::ChatEnd::kLastMessage;
      else if (last.contains("reasoning_content"))
        return bad_field(
            path,
            "{} has thoughts but no text that the answer could continue; add text or leave it out",
            path);
      else
        messages_.erase(messages_.size() - 1);
    }
    if (messages_.empty())
      return bad_field("messages", "messages has nothing to answer; send a user's message");
    out.messages = std::move(messages_);
    return out;
  }

 private:
  struct Call {
    std::string id, name;
  };

  bool is_last(std::string_view role) const {
    return !messages_.empty() && messages_.back()["role"] == role;
  }
  Json& message_of(std::string_view role) {
    if (!is_last(role)) messages_.push_back({{"role", role}, {"content", ""}});
    return messages_.back();
  }
  static void append(Json& text, const std::string& more) {
    std::string& all = text.get_ref<std::string&>();
    if (!all.empty()) all += '\n';
    all += more;
  }
  void add_text(std::string_view role, const std::string& text) {
    append(message_of(role)["content"], text);
  }

  // Adds content; returns how many parts it had.
  ApiResult<size_t> add_content(const std::string& role, const Json& content,
                                const std::string& path) {
    if (role == "system" || content.is_string()) return add_texts(role, content, path);
    if (!content.is_array())
      return bad_field(path, "{} must be a string or a list of blocks", path);
    size_t parts = 0, index = 0;
    for (const Json& given : content) {
      KVICK_TRY(Fields block, request_.inside(given, fmt::format("{}[{}]", path, index++)));
      KVICK_TRY(const bool something,
                role == "user" ? add_user_block(block) : add_assistant_block(block));
      parts += something ? 1 : 0;
    }
    return parts;
  }
  ApiResult<size_t> add_texts(const std::string& role, const Json& content,
                              const std::string& path) {
    KVICK_TRY(const std::vector<std::string> texts, read_texts(request_, content, path));
    const bool behind = role == "system" && !messages_.empty() && !is_last("system");
    for (const std::string& text : texts) add_text(behind ? "user" : role, text);
    return texts.size();
  }

  ApiResult<bool> add_text_block(std::string_view role, Fields& block) {
    KVICK_TRY(const std::string text, read_text_block(block));
    if (!text.empty()) add_text(role, text);
    return !text.empty();
  }
  ApiResult<bool> add_user_block(Fields& block) {
    KVICK_TRY(const std::string type, required_string(block, "type"));
    if (type == "text") return add_text_block("user", block);
    if (type == "tool_result") return add_result(block);
    if (type == "document" || type == "search_result") return add_source(type, block);
    return wrong_block(block, type, "text, document, search_result and tool_result blocks");
  }
  // Adds what the user lets the model read.
  ApiResult<bool> add_source(std::string_view type, Fields& block) {
    const auto only_texts = [](const Fields& outer, const Json& content, const std::string& path) {
      return read_texts(outer, content, path);
    };
    KVICK_TRY(const std::string text,
              type == "document" ? read_document(block, only_texts) : read_search_result(block));
    block.ignore({"cache_control"});
    KVICK_TRY_VOID(block.check_rest());
    if (!text.empty()) add_text("user", text);
    return !text.empty();
  }
  ApiResult<bool> add_assistant_block(Fields& block) {
    KVICK_TRY(const std::string type, required_string(block, "type"));
    if (type == "text") return add_text_block("assistant", block);
    if (type == "tool_use") return add_call(block);
    if (type == "thinking") return add_thoughts(block);
    if (type != "redacted_thinking")
      return wrong_block(block, type, "text, tool_use and thinking blocks");
    block.ignore({"data"});  // encrypted by Anthropic for its own use
    KVICK_TRY_VOID(block.check_rest());
    message_of("assistant");
    return true;
  }

  ApiResult<bool> add_thoughts(Fields& block) {
    KVICK_TRY(const std::string thoughts, required_string(block, "thinking"));
    block.ignore({"signature", "cache_control"});
    KVICK_TRY_VOID(block.check_rest());
    Json& message = message_of("assistant");
    if (thoughts.empty()) return true;  // the answer that it comes from omitted them
    Json& place = message["reasoning_content"];
    if (place.is_null()) place = "";
    append(place, thoughts);
    return true;
  }

  // Call ids have nine letters and digits, the only form that Mistral's templates accept. They are
  // numbered in order, so that the next prompt of the conversation begins with the same tokens.
  ApiResult<bool> add_call(Fields& block) {
    KVICK_TRY(std::string id, required_string(block, "id"));
    KVICK_TRY(std::string name, required_string(block, "name"));
    const Json* input = block.find("input");
    if (input != nullptr && !input->is_object())
      return bad_field(block.path("input"), "{} must be a JSON object", block.path("input"));
    block.ignore({"cache_control", "caller"});
    KVICK_TRY_VOID(block.check_rest());
    const Call call = {.id = fmt::format("call{:05}", made_++), .name = std::move(name)};
    Json function = {{"name", call.name}, {"arguments", input ? *input : Json::object()}};
    Json& list = message_of("assistant")["tool_calls"];
    list.push_back({{"id", call.id}, {"type", "function"}, {"function", std::move(function)}});
    calls_[std::move(id)] = call;
    return true;
  }

  ApiResult<bool> add_result(Fields& block) {
    KVICK_TRY(const std::string id, required_string(block, "tool_use_id"));
    const auto call = calls_.find(id);
    if (call == calls_.end())
      return bad_field(block.path("tool_use_id"),
                       "{} is {}, which no tool_use block of the messages before has",
                       block.path("tool_use_id"), in_quotes(id));
    KVICK_TRY(const bool failed, block.get_bool("is_error", false));
    std::string text = failed ? "Error: " : "";
    if (const Json* content = block.find("content")) {
      KVICK_TRY(const std::vector<std::string> texts,
                results_.read(request_, *content, block.path("content")));
      text += fmt::format("{}", fmt::join(texts, "\n"));
    }
    block.ignore({"cache_control"});
    KVICK_TRY_VOID(block.check_rest());
    messages_.push_back({{"role", "tool"},
                         {"tool_call_id", call->second.id},
                         {"name", call->second.name},
                         {"content", std::move(text)}});
    return true;
  }

  const Fields& request_;
  ToolResults results_;
  Json messages_ = Json::array();
  std::map<std::string, Call> calls_;  // key: Anthropic's id
  size_t made_ = 0;
};

}  // namespace

ApiResult<Conversation> read_conversation(Fields& fields, const Tools& tools) {
  Builder builder(fields, tools);
  if (const Json* system = fields.find("system")) KVICK_TRY_VOID(builder.add_system(*system));
  const Json* given = fields.find("messages");
  if (given == nullptr) return bad_field("messages", "messages is missing");
  if (!given->is_array() || given->empty())
    return bad_field("messages", "messages must be a list of at least one message");
  std::string path;
  for (size_t i = 0; i < given->size(); ++i) {
    path = fmt::format("messages[{}]", i);
    KVICK_TRY_VOID(builder.add_message((*given)[i], path, i + 1 == given->size()));
  }
  return builder.take(path);
}

}  // namespace kvick::server
