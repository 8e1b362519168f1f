#include "server/responses/input_items.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/request/left_out.h"
#include "server/responses/namespaces.h"

namespace kvick::server {
namespace {

// Stands for a tool, whose output has parts like a message.
constexpr std::string_view kTool = "tool";
constexpr std::array kMessageRoles = {"system", "developer", "user", "assistant"};

bool is_system(std::string_view role) { return role == "system" || role == "developer"; }

Json text_part(std::string_view role, std::string text) {
  if (role != "assistant") return {{"type", "input_text"}, {"text", std::move(text)}};
  return {{"type", "output_text"},
          {"text", std::move(text)},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

ApiResult<Json> read_part(const Fields& outer, const Json& part, const std::string& path,
                          std::string_view role) {
  KVICK_TRY(Fields fields, outer.inside(part, path));
  KVICK_TRY(const std::string type, fields.get_string("type", ""));
  if (type == "refusal") {
    KVICK_TRY(std::string refusal, fields.get_string("refusal", ""));
    KVICK_TRY_VOID(fields.check_rest());
    return Json({{"type", "refusal"}, {"refusal", std::move(refusal)}});
  }
  if (std::string text = left_out(type); role == kTool && !text.empty()) {
    KVICK_TRY_VOID(fields.check_rest());
    return text_part(role, std::move(text));
  }
  if (type != "input_text" && type != "output_text" && type != "text")
    return bad_field(fields.path("type"), "{} is {}, but this server takes only text",
                     fields.path("type"), in_quotes(type));
  KVICK_TRY(std::string text, fields.get_string("text", ""));
  fields.ignore({"annotations", "logprobs"});
  KVICK_TRY_VOID(fields.check_rest());
  return text_part(role, std::move(text));
}

// Reads a string or a list of text parts; returns a list.
ApiResult<Json> read_parts(Fields& item, std::string_view name, std::string_view role) {
  const Json* given = item.find(name);
  const std::string path = item.path(name);
  if (given != nullptr && given->is_string())
    return Json::array({text_part(role, given->get<std::string>())});
  if (given == nullptr || !given->is_array())
    return bad_field(path, "{} must be a string or a list of parts of text", path);
  Json parts = Json::array();
  for (const Json& one : *given) {
    KVICK_TRY(Json part, read_part(item, one, fmt::format("{}[{}]", path, parts.size()), role));
    parts.push_back(std::move(part));
  }
  return parts;
}

ApiResult<std::string> read_needed(Fields& item, std::string_view name) {
  KVICK_TRY(std::string value, item.get_string(name, ""));
  if (value.empty()) return bad_field(item.path(name), "{} is missing", item.path(name));
  return value;
}

ApiResult<Json> read_message(Fields& item) {
  KVICK_TRY(const std::string role, item.get_string("role", ""));
  if (std::find(kMessageRoles.begin(), kMessageRoles.end(), role) == kMessageRoles.end())
    return bad_field(item.path("role"), "{} is {}; it must be one of {}", item.path("role"),
                     in_quotes(role), fmt::join(kMessageRoles, ", "));
  KVICK_TRY(Json parts, read_parts(item, "content", role));
  return Json({{"type", "message"}, {"role", role}, {"content", std::move(parts)}});
}

bool is_object(const std::string& text) {
  const auto parsed = parse_json(text);
  return parsed.ok() && parsed->is_object();
}

ApiResult<Json> read_call(Fields& item) {
  KVICK_TRY(std::string call, read_needed(item, "call_id"));
  KVICK_TRY(std::string name, read_needed(item, "name"));
  KVICK_TRY(std::string arguments, item.get_string("arguments", ""));
  if (arguments.empty()) arguments = "{}";
  if (!is_object(arguments)) {
    if (item.unknown().refused())
      return bad_field(item.path("arguments"), "{} must be a JSON object in a string",
                       item.path("arguments"));
    // The client sends a call that was cut off again with every request of the conversation.
    item.unknown().add(item.path("arguments"));
    arguments = "{}";
  }
  KVICK_TRY(std::string space, item.get_string("namespace", ""));
  Json read = {{"type", "function_call"},
               {"call_id", std::move(call)},
               {"name", std::move(name)},
               {"arguments", std::move(arguments)}};
  if (!space.empty()) read["namespace"] = std::move(space);
  return read;
}

ApiResult<Json> read_output(Fields& item) {
  KVICK_TRY(std::string call, read_needed(item, "call_id"));
  Json output;
  if (const Json* text = item.find("output"); text != nullptr && text->is_string()) {
    output = *text;
  } else {
    KVICK_TRY(output, read_parts(item, "output", kTool));
  }
  return Json({{"type", "function_call_output"},
               {"call_id", std::move(call)},
               {"output", std::move(output)}});
}

// Reads thoughts. Encrypted ones come from other servers, and a summary is not what the model
// thought; both are ignored.
ApiResult<Json> read_reasoning(Fields& item) {
  item.ignore({"summary", "encrypted_content"});
  Json content = Json::array();
  const Json* given = item.find("content");
  if (given != nullptr && !given->is_array())
    return bad_field(item.path("content"), "{} must be a list of parts", item.path("content"));
  if (given != nullptr)
    for (const Json& one : *given) {
      const std::string path = fmt::format("{}[{}]", item.path("content"), content.size());
      KVICK_TRY(Fields part, item.inside(one, path));
      KVICK_TRY(const std::string type, part.get_string("type", "reasoning_text"));
      if (type != "reasoning_text" && type != "text")
        return bad_field(part.path("type"), "{} is {}; it must be \"reasoning_text\"",
                         part.path("type"), in_quotes(type));
      KVICK_TRY(std::string text, part.get_string("text", ""));
      KVICK_TRY_VOID(part.check_rest());
      content.push_back({{"type", "reasoning_text"}, {"text", std::move(text)}});
    }
  return Json({{"type", "reasoning"}, {"summary", Json::array()}, {"content", std::move(content)}});
}

ApiResult<Json> read_kind(Fields& item, const std::string& type) {
  if (type == "message") return read_message(item);
  if (type == "function_call") return read_call(item);
  if (type == "function_call_output") return read_output(item);
  if (type == "reasoning") return read_reasoning(item);
  return bad_field(item.path("type"),
                   "{} is {}, but this server takes messages, function_call, "
                   "function_call_output, reasoning and item_reference",
                   item.path("type"), in_quotes(type));
}

// Treats a stored call that was cut off as one without arguments, as when the client sends it.
ApiStatus mend_call(const Fields& reference, Json& item) {
  if (item["type"] != "function_call") return base::Done{};
  Json& arguments = item["arguments"];
  if (is_object(arguments.get_ref<const std::string&>())) return base::Done{};
  if (reference.unknown().refused())
    return bad_field(reference.path("id"),
                     "{} names a call of a tool that was cut off; ask again with a larger "
                     "max_output_tokens instead of going on from it",
                     reference.path("id"));
  reference.unknown().add(reference.path("arguments"));
  arguments = "{}";
  return base::Done{};
}

ApiResult<Json> read_item(const Fields& request, const Json& given, const std::string& path,
                          const FindItem& find) {
  KVICK_TRY(Fields fields, request.inside(given, path));
  KVICK_TRY(const std::string id, fields.get_string("id", ""));
  const bool has_role = fields.find("role") != nullptr;
  // An item without a type and a role is a reference to a stored item: clients send {"id": ...}.
  KVICK_TRY(const std::string type,
            fields.get_string("type", has_role ? "message" : "item_reference"));
  if (type == "item_reference") {
    Json item = find(id);
    if (item.is_null())
      return bad_field(
          fields.path("id"),
          "{} names {}, which no stored response has or the input has already; send the "
          "item itself",
          fields.path("id"), in_quotes(id));
    KVICK_TRY_VOID(mend_call(fields, item));
    KVICK_TRY_VOID(fields.check_rest());
    return item;
  }
  KVICK_TRY(Json item, read_kind(fields, type));
  if (!id.empty()) item["id"] = id;
  item["status"] = "completed";
  fields.ignore({"status", "phase", "created_by"});
  KVICK_TRY_VOID(fields.check_rest());
  return item;
}

std::string joined(const Json& parts) {
  if (parts.is_string()) return parts.get<std::string>();
  std::string text;
  bool first = true;
  for (const Json& part : parts) {
    if (!std::exchange(first, false)) text += '\n';
    text += part[part["type"] == "refusal" ? "refusal" : "text"].get_ref<const std::string&>();
  }
  return text;
}

class ChatMessages {
 public:
  explicit ChatMessages(const std::string& instructions) {
    if (!instructions.empty()) add_message("system", instructions);
  }
  void add(const Json& item) {
    const auto& type = item["type"].get_ref<const std::string&>();
    if (type == "message") {
      const auto& role = item["role"].get_ref<const std::string&>();
      if (role == "assistant")
        add_answer(joined(item["content"]));
      else
        add_message(is_system(role) ? "system" : role, joined(item["content"]));
    } else if (type == "function_call") {
      add_call(item);
    } else if (type == "function_call_output") {
      open_ = false;
      messages_.push_back({{"role", "tool"},
                           {"tool_call_id", item["call_id"]},
                           {"content", joined(item["output"])}});
    } else {
      add_thoughts(joined(item["content"]));
    }
  }
  Json take() { return std::move(messages_); }

 private:
  void add_message(const std::string& role, std::string text) {
    open_ = false;
    const bool begins = messages_.size() == 1 && messages_[0]["role"] == "system";
    if (role == "system" && begins) {
      messages_[0]["content"].get_ref<std::string&>().append("\n\n").append(text);
      return;
    }
    messages_.push_back({{"role", role}, {"content", std::move(text)}});
  }
  Json& answer(bool new_one) {
    if (!open_ || new_one) messages_.push_back({{"role", "assistant"}, {"content", ""}});
    open_ = true;
    return messages_.back();
  }
  bool last_has(const char* name) const { return open_ && messages_.back().contains(name); }
  bool last_speaks() const { return open_ && messages_.back()["content"] != ""; }
  void add_answer(std::string text) {
    answer(last_speaks() || last_has("tool_calls"))["content"] = std::move(text);
  }
  void add_thoughts(std::string text) {
    if (text.empty()) return;
    answer(last_speaks() || last_has("tool_calls") ||
           last_has("reasoning_content"))["reasoning_content"] = std::move(text);
  }
  void add_call(const Json& item) {
    Json& message = answer(false);
    if (!message.contains("tool_calls")) message["tool_calls"] = Json::array();
    std::string name = item["name"].get<std::string>();
    if (const auto space = item.find("namespace"); space != item.end())
      name = name_in(space->get_ref<const std::string&>(), name);
    message["tool_calls"].push_back(
        {{"id", item["call_id"]},
         {"type", "function"},
         {"function", {{"name", std::move(name)}, {"arguments", item["arguments"]}}}});
  }

  Json messages_ = Json::array();
  bool open_ = false;  // the last message is the assistant's and may still grow
};

}  // namespace

ApiResult<Json> read_input(Fields& request, const FindItem& find) {
  const Json* given = request.find("input");
  if (given == nullptr) return bad_field("input", "input is missing");
  Json items = Json::array();
  if (given->is_string()) {
    items.push_back({{"type", "message"},
                     {"role", "user"},
                     {"content", Json::array({text_part("user", given->get<std::string>())})},
                     {"status", "completed"}});
    return items;
  }
  if (!given->is_array() || given->empty())
    return bad_field("input", "input must be a string or a list of at least one item");
  for (const Json& one : *given) {
    KVICK_TRY(Json item, read_item(request, one, fmt::format("input[{}]", items.size()), find));
    items.push_back(std::move(item));
  }
  return items;
}

Json chat_messages(const std::string& instructions, const Json& items) {
  ChatMessages messages(instructions);
  for (const Json& item : items) messages.add(item);
  return messages.take();
}

}  // namespace kvick::server
