#include "server/ollama/messages.h"

#include <deque>
#include <map>
#include <vector>

#include "server/openai/chat_request.h"

namespace kvick::server {
namespace {

using base::Done;

void rename(Json& object, const char* from, const char* to) {
  const auto found = object.find(from);
  if (found == object.end()) return;
  Json value = *found;
  object.erase(from);
  if (!object.contains(to)) object[to] = std::move(value);
}

// Assigns ids to calls and matches results to them. Results follow their calls: a result that names
// its tool belongs to the next call of that tool, others to the next call, in each case one that
// has no result yet.
class CallIds {
 public:
  // Forgets the calls of earlier messages.
  void begin() { calls_.clear(), all_.clear(), of_tool_.clear(); }

  void add(Json& call) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) return;
    call["function"].erase("index");  // the index of the call, which templates must not write
    if (!call.contains("type")) call["type"] = "function";
    // Mistral's templates accept only nine letters and digits.
    if (!call.contains("id") || !call["id"].is_string())
      call["id"] = fmt::format("call{:05}", made_++ % 100000);
    all_.push_back(calls_.size());
    const Json& function = call["function"];
    if (function.contains("name") && function["name"].is_string())
      of_tool_[function["name"].get<std::string>()].push_back(calls_.size());
    calls_.push_back({.id = call["id"].get<std::string>()});
  }

  void join(Json& result) {
    rename(result, "tool_name", "name");
    if (result.contains("tool_call_id") && !result["tool_call_id"].is_null()) return;
    const bool named = result.contains("name") && result["name"].is_string();
    std::deque<size_t>& places = named ? of_tool_[result["name"].get<std::string>()] : all_;
    while (!places.empty() && calls_[places.front()].has_result) places.pop_front();
    if (places.empty()) return;
    Call& call = calls_[places.front()];
    call.has_result = true;
    result["tool_call_id"] = call.id;
  }

 private:
  struct Call {
    std::string id;
    bool has_result = false;
  };
  std::vector<Call> calls_;  // of the last message that has some
  std::deque<size_t> all_;   // indices of calls_, of all calls and by the tool's name
  std::map<std::string, std::deque<size_t>> of_tool_;
  size_t made_ = 0;
};

ApiStatus translate(Json& message, const std::string& path, CallIds& ids) {
  if (!message.is_object()) return Done{};  // read_messages() reports it
  if (message.contains("images") && !message["images"].empty())
    return bad_field(path + ".images", "{}.images has images, but this server takes only text",
                     path);
  message.erase("images");
  rename(message, "thinking", "reasoning_content");
  // Applies to any role: the Python client omits fields that are None.
  if (!message.contains("content") || message["content"].is_null()) message["content"] = "";
  if (message.contains("tool_calls") && message["tool_calls"].is_array()) {
    ids.begin();
    for (Json& call : message["tool_calls"]) ids.add(call);
  }
  if (message.contains("role") && message["role"] == "tool") ids.join(message);
  return Done{};
}

}  // namespace

ApiResult<Json> read_ollama_messages(const Json& list, const Fields& request) {
  Json body;
  Json& messages = body["messages"] = list;
  CallIds ids;
  if (messages.is_array())
    for (size_t i = 0; i < messages.size(); ++i)
      KVICK_TRY_VOID(translate(messages[i], fmt::format("messages[{}]", i), ids));
  KVICK_TRY(Fields fields, request.inside(body, ""));
  return read_messages(fields);
}

}  // namespace kvick::server
