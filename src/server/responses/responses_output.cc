#include "server/responses/responses_output.h"

#include <fmt/format.h>

#include "server/net/sse.h"

namespace kvick::server {
namespace {

constexpr std::string_view kCompleted = "completed", kIncomplete = "incomplete";

Json text_part(std::string text) {
  return {{"type", "output_text"},
          {"text", std::move(text)},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json thought_part(std::string text) {
  return {{"type", "reasoning_text"}, {"text", std::move(text)}};
}

}  // namespace

std::string ResponsesOutput::event(std::string_view type, Json more) {
  Json event = {{"type", type}, {"sequence_number", events_++}};
  event.update(more);
  return sse_event(type, to_text(event));
}

std::string ResponsesOutput::id_of(std::string_view kind) const {
  return fmt::format("{}_{}_{}", kind, number_, items_.size());
}

Json ResponsesOutput::place(const std::string& id) const {
  return {{"item_id", id}, {"output_index", items_.size()}};
}

Json ResponsesOutput::item(const Open& open, std::string_view status) const {
  Json parts = Json::array();
  const bool whole = status != "in_progress";
  if (open.kind == Kind::kMessage) {
    if (whole) parts.push_back(text_part(open.text));
    return {{"id", open.id},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(parts)}};
  }
  if (whole) parts.push_back(thought_part(open.text));
  return {{"id", open.id},
          {"type", "reasoning"},
          {"status", status},
          {"summary", Json::array()},
          {"content", std::move(parts)}};
}

std::string ResponsesOutput::open(Kind kind) {
  const bool message = kind == Kind::kMessage;
  open_ = Open{.kind = kind, .id = id_of(message ? "msg" : "rs"), .text = ""};
  std::string out = event("response.output_item.added",
                          {{"output_index", items_.size()}, {"item", item(*open_, "in_progress")}});
  Json part = place(open_->id);
  part["content_index"] = 0;
  part["part"] = message ? text_part("") : thought_part("");
  return out + event("response.content_part.added", std::move(part));
}

std::string ResponsesOutput::grow(Kind kind, const std::string& text) {
  if (text.empty()) return "";
  std::string out;
  if (open_ && open_->kind != kind) out += close(kCompleted);
  if (!open_) out += open(kind);
  open_->text += text;
  Json delta = place(open_->id);
  delta["content_index"] = 0;
  delta["delta"] = text;
  if (kind == Kind::kReasoning)
    return out + event("response.reasoning_text.delta", std::move(delta));
  delta["logprobs"] = Json::array();
  return out + event("response.output_text.delta", std::move(delta));
}

std::string ResponsesOutput::close(std::string_view status) {
  const bool message = open_->kind == Kind::kMessage;
  Json whole = item(*open_, status);
  Json text = place(open_->id);
  text["content_index"] = 0;
  Json part = text;
  text["text"] = open_->text;
  if (message) text["logprobs"] = Json::array();
  part["part"] = whole["content"][0];
  std::string out = event(message ? "response.output_text.done" : "response.reasoning_text.done",
                          std::move(text));
  out += event("response.content_part.done", std::move(part));
  out += event("response.output_item.done", {{"output_index", items_.size()}, {"item", whole}});
  if (!message) thoughts_ += open_->text;
  items_.push_back(std::move(whole));
  open_.reset();
  return out;
}

// Adds a call, which always arrives whole.
std::string ResponsesOutput::call(const ToolCall& call, bool cut) {
  const std::string id = id_of("fc");
  const auto inside = names_.find(call.name);
  const std::string& name = inside == names_.end() ? call.name : inside->second.name;
  Json whole = {{"id", id},
                {"type", "function_call"},
                {"status", "in_progress"},
                {"call_id", fmt::format("call_{}_{}", number_, items_.size())},
                {"name", name},
                {"arguments", ""}};
  if (inside != names_.end()) whole["namespace"] = inside->second.space;
  std::string out =
      event("response.output_item.added", {{"output_index", items_.size()}, {"item", whole}});
  whole["status"] = cut ? kIncomplete : kCompleted;
  whole["arguments"] = call.arguments;
  Json delta = place(id), done = delta;
  delta["delta"] = call.arguments;
  done["name"] = name;
  done["arguments"] = call.arguments;
  out += event("response.function_call_arguments.delta", std::move(delta));
  out += event("response.function_call_arguments.done", std::move(done));
  out += event("response.output_item.done", {{"output_index", items_.size()}, {"item", whole}});
  items_.push_back(std::move(whole));
  return out;
}

std::string ResponsesOutput::add(const ChoiceText& added) {
  std::string out = grow(Kind::kReasoning, added.reasoning);
  out += grow(Kind::kMessage, added.content);
  if (open_ && !added.calls.empty()) out += close(kCompleted);
  for (const ToolCall& one : added.calls) out += call(one, !parse_json(one.arguments).ok());
  return out;
}

std::string ResponsesOutput::finish(bool cut) {
  std::string out;
  if (!open_ && items_.empty()) out += open(Kind::kMessage);
  if (open_) out += close(cut ? kIncomplete : kCompleted);
  return out;
}

}  // namespace kvick::server
