#include "server/answer/tool_calls.h"

#include <algorithm>

#include "server/answer/call_forms.h"
#include "server/answer/python_calls.h"
#include "server/answer/text_marks.h"

namespace kvick::server {
namespace {

// Reads the tokens of an unfinished JSON object.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) { skip_space(); }
  bool skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    skip_space();
    return true;
  }
  // Reads a string; "" if there is none or it has not ended.
  std::string string() {
    if (rest_.empty() || rest_.front() != '"') return "";
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return "";
    const auto parsed = parse_json(rest_.substr(0, end + 1));
    rest_.remove_prefix(end + 1);
    skip_space();
    return parsed.ok() ? parsed->get<std::string>() : "";
  }
  std::string_view rest() const { return rest_; }

 private:
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpace), rest_.size()));
  }
  std::string_view rest_;
};

// Parses the beginning of a call; nothing if its name is not complete.
std::optional<ToolCall> begun_call(std::string_view text) {
  Reader reader(text);
  reader.skip('[');
  if (!reader.skip('{') || reader.string() != "name" || !reader.skip(':')) return std::nullopt;
  ToolCall call = {.name = reader.string(), .arguments = {}};
  if (call.name.empty()) return std::nullopt;
  if (!reader.skip(',')) return call;
  const std::string key = reader.string();
  if ((key == "arguments" || key == "parameters") && reader.skip(':'))
    call.arguments = reader.rest();
  return call;
}

// Returns the arguments of a call as an object. Some models write them as a string, as in OpenAI's
// API, or null for none.
Json arguments_of(const Json& call) {
  const auto found = call.find(call.contains("arguments") ? "arguments" : "parameters");
  if (found == call.end() || found->is_null()) return Json::object();
  if (!found->is_string()) return *found;
  const auto parsed = parse_json(found->get_ref<const std::string&>());
  return parsed.ok() ? *parsed : *found;
}

// Returns whether a text that begins with '{' may become a call; its first key decides.
bool may_be_object(std::string_view text, const std::vector<std::string>& names,
                   std::string_view name_key) {
  text.remove_prefix(1);
  text.remove_prefix(text_begin(text));
  if (text.empty()) return true;
  if (text[0] != '"') return false;
  text.remove_prefix(1);
  const size_t end = text.find('"');
  const auto fits = [&](std::string_view key) {
    return end == text.npos ? key.starts_with(text) : key == text.substr(0, end);
  };
  for (const std::string_view key : {"name", "arguments", "parameters", "type", "id"})
    if (fits(key)) return true;
  return name_key.empty() ? std::any_of(names.begin(), names.end(), fits) : fits(name_key);
}

// Returns whether a text that begins with '{' or '[' may become one call or several.
bool may_be_calls(std::string_view text, const std::vector<std::string>& names,
                  std::string_view name_key) {
  if (text[0] == '{') return may_be_object(text, names, name_key);
  text.remove_prefix(1);
  text.remove_prefix(text_begin(text));
  if (text.empty()) return true;
  if (text[0] == '{') return may_be_object(text, names, name_key);
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {  // Python's form
    if (!text.starts_with(name)) return name.starts_with(text);
    const std::string_view rest = text.substr(name.size());
    return text_begin(rest) == rest.size() || rest[text_begin(rest)] == '(';
  });
}

}  // namespace

std::vector<ToolCall> ToolCallParser::calls_of(std::string_view text) const {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) {
    auto calls = python_calls(text);
    const auto offered = [this](const ToolCall& call) { return offers(call.name); };
    if (!calls || !std::all_of(calls->begin(), calls->end(), offered)) return {};
    return *std::move(calls);
  }
  const Json list = parsed->is_array() ? *parsed : Json::array({*parsed});
  std::vector<ToolCall> calls;
  for (const Json& one : list) {
    if (syntax_.name_key.empty() && one.is_object() && one.size() == 1 &&
        offers(one.begin().key()) && one.begin()->is_object()) {
      calls.push_back({.name = one.begin().key(), .arguments = to_text(*one.begin())});
      continue;
    }
    const std::string name_key =
        one.is_object() && one.contains("name") ? "name" : syntax_.name_key;
    if (!one.is_object() || !one.contains(name_key)) return {};
    const Json& name = one[name_key];
    if (!name.is_string() || !offers(name.get_ref<const std::string&>())) return {};
    const Json arguments = arguments_of(one);
    if (!arguments.is_object()) return {};
    calls.push_back({.name = name.get<std::string>(), .arguments = to_text(arguments)});
  }
  return calls;
}

std::vector<ToolCall> ToolCallParser::calls_inside(std::string_view text) const {
  using Form = text::AnswerSyntax::Calls::Form;
  if (syntax_.form == Form::kJson || syntax_.form == Form::kPython) return calls_of(text);
  std::optional<ToolCall> call =
      syntax_.form == Form::kNamed ? named_call(text, syntax_) : tagged_call(text, syntax_, tools_);
  // Models also write calls as JSON, whatever their template shows.
  if (!call || !offers(call->name)) return calls_of(text);
  return {*std::move(call)};
}

// GLM-4 writes a call as a tool's name, a line break, and the arguments.
bool ToolCallParser::begins_with_name(std::string_view text) const {
  using Form = text::AnswerSyntax::Calls::Form;
  if (syntax_.form != Form::kNamed || !syntax_.open.empty()) return false;
  return std::any_of(tools_.names.begin(), tools_.names.end(), [&](const std::string& name) {
    return text.starts_with(name) && text.substr(name.size()).starts_with('\n');
  });
}

bool ToolCallParser::may_begin_with_name(std::string_view text) const {
  using Form = text::AnswerSyntax::Calls::Form;
  if (syntax_.form != Form::kNamed || !syntax_.open.empty()) return false;
  return std::any_of(tools_.names.begin(), tools_.names.end(),
                     [&](const std::string& name) { return name.starts_with(text); });
}

bool ToolCallParser::offers(std::string_view name) const {
  return std::find(tools_.names.begin(), tools_.names.end(), name) != tools_.names.end();
}

void ToolCallParser::take(std::vector<ToolCall> calls, std::string_view source, Found& found) {
  if (calls.empty()) found.content += source;
  after_call_ = !calls.empty();
  for (ToolCall& call : calls)
    if (tools_.parallel || calls_ == 0) {
      ++calls_;
      found.calls.push_back(std::move(call));
    }
}

// Takes a call that was cut off.
void ToolCallParser::take_cut(std::string_view text, Found& found) {
  found.cut = true;
  std::optional<ToolCall> call = begun_call(text);
  if (!call || (!tools_.parallel && calls_ > 0)) return;
  if (!offers(call->name)) return;
  ++calls_;
  found.calls.push_back(*std::move(call));
}

// Drops white space and marks between calls, which are not content. Returns false if the held text
// may still become a mark.
bool ToolCallParser::skip_between(bool all) {
  held_.erase(0, text_begin(held_));
  const std::string& close = syntax_.all_close;
  if (close.empty() || held_.empty()) return true;
  if (held_.starts_with(close)) {
    held_.erase(0, close.size());
    held_.erase(0, text_begin(held_));
  } else if (close.starts_with(held_)) {
    if (!all) return false;
    held_.clear();
  }
  return true;
}

// Takes the text up to the end of the first call, or the text that is certain not to be a call.
// Returns false if nothing more can be taken.
bool ToolCallParser::drain_tagged(Found& found, Stage stage) {
  const bool all = stage != Stage::kGrows;
  if (after_call_ && !skip_between(all)) return false;
  if (held_.empty()) return false;
  const Opening opening = find_opening(held_, syntax_);
  if (!opening.found) {
    const size_t sure = held_.size() - (all ? 0 : opening.unsure);
    if (sure == 0) return false;
    after_call_ = false;
    found.content += held_.substr(0, sure);
    held_.erase(0, sure);
    return false;
  }
  after_call_ = false;
  found.content += held_.substr(0, opening.begin);
  held_.erase(0, opening.open);
  Inside inside = inside_of(held_, syntax_, true);
  // At the end of the answer a call may be complete without its closing mark, which may be an end
  // token.
  if (!inside.closed && !all) return false;
  std::vector<ToolCall> calls = calls_inside(inside.text);
  if (calls.empty() && !inside.closed && stage == Stage::kCut) {
    take_cut(inside.text, found);
  } else {
    // Invalid text may have an unbalanced quote, so it ends at the first mark; later calls are not
    // lost.
    if (calls.empty()) inside = inside_of(held_, syntax_, false);
    take(std::move(calls), std::string_view(held_).substr(0, inside.past), found);
  }
  held_.erase(0, inside.past);
  return true;
}

void ToolCallParser::drain(Found& found, Stage stage) {
  const bool all = stage != Stage::kGrows, required = tools_.choice == Tools::Choice::kRequired;
  if (!began_) {
    const size_t first = held_.find_first_not_of(kSpace);
    if (first == std::string::npos && !all) return;
    const std::string_view text = std::string_view(held_).substr(text_begin(held_));
    const std::string_view open = syntax_.open;
    if (!all && !required && may_begin_with_name(text)) return;
    if (!all && !required && !text.empty() && open.starts_with(text)) return;
    began_ = true;
    // The opening mark of calls may itself begin with a bracket.
    bare_ = required || begins_with_name(text) ||
            (!text.empty() && (text[0] == '{' || text[0] == '[') &&
             (open.empty() || !text.starts_with(open)));
  }
  if (bare_ && !required) {
    const std::string_view text = std::string_view(held_).substr(text_begin(held_));
    if (!text.empty() && (text[0] == '{' || text[0] == '['))
      bare_ = may_be_calls(text, tools_.names, syntax_.name_key);
  }
  if (bare_ && !all) return;
  if (bare_) {
    std::vector<ToolCall> calls = required ? calls_of(held_) : calls_inside(held_);
    if (calls.empty() && required)
      take_cut(held_, found);
    else
      take(std::move(calls), held_, found);
    held_.clear();
    return;
  }
  while (drain_tagged(found, stage)) {
  }
}

ToolCallParser::Found ToolCallParser::push(std::string_view text) {
  held_ += text;
  Found found;
  drain(found, Stage::kGrows);
  return found;
}

ToolCallParser::Found ToolCallParser::finish(bool whole) {
  Found found;
  drain(found, whole ? Stage::kWhole : Stage::kCut);
  return found;
}

}  // namespace kvick::server
