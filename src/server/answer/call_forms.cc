#include "server/answer/call_forms.h"

#include <algorithm>

#include "server/answer/text_marks.h"
#include "text/schema/schema_expand.h"

namespace kvick::server {
namespace {

using Calls = text::AnswerSyntax::Calls;

std::string_view trimmed(std::string_view text) {
  text = text.substr(0, text_end(text));
  return text.substr(text_begin(text));
}

// Returns where the mark at `at` ends, or npos. Models omit white space within a mark, such as the
// line break in GLM's "</arg_key>\n<arg_value>", or add more.
size_t mark_end(std::string_view text, size_t at, std::string_view mark) {
  for (bool first = true; !mark.empty(); first = false) {
    const std::string_view word = mark.substr(0, mark.find_first_of(kSpace));
    if (!first) at += text_begin(text.substr(at));
    if (!text.substr(at).starts_with(word)) return text.npos;
    at += word.size();
    mark.remove_prefix(word.size());
    mark.remove_prefix(text_begin(mark));
  }
  return at;
}

// Takes the text before a mark, and the mark. Returns false if there is no mark.
bool take_before(std::string_view& rest, std::string_view mark, std::string_view& before) {
  const std::string_view word = mark.substr(0, mark.find_first_of(kSpace));
  for (size_t at = rest.find(word); at != rest.npos; at = rest.find(word, at + 1)) {
    const size_t end = mark_end(rest, at, mark);
    if (end == rest.npos) continue;
    before = rest.substr(0, at);
    rest.remove_prefix(end);
    return true;
  }
  return false;
}

// Returns a field, or null if the value is no object or lacks it. Schemas of tools are unchecked.
const Json* field_of(const Json* value, std::string_view name) {
  if (value == nullptr || !value->is_object()) return nullptr;
  const auto field = value->find(name);
  return field == value->end() ? nullptr : &*field;
}

// Collects the types that a tool's schema allows, by their names in JSON Schema.
class AllowedTypes {
 public:
  // root: the schema that references point into; must outlive this.
  explicit AllowedTypes(const Json& root) : root_(root) {}

  void add(const Json* schema) {
    if (left_ == 0) return;
    --left_;
    const Json* const type = field_of(schema, "type");
    if (type != nullptr)
      for (const Json& one : type->is_array() ? *type : Json::array({*type}))
        if (one.is_string()) types_.push_back(one.get<std::string>());
    if (const Json* const reference = field_of(schema, "$ref"))
      if (const auto target = root_.resolve(*reference, ""); target.ok()) add(*target);
    for (const char* const parts : {"anyOf", "oneOf", "allOf"})
      if (const Json* const list = field_of(schema, parts); list != nullptr && list->is_array())
        for (const Json& one : *list) add(&one);
    if (type != nullptr) return;
    if (const Json* const value = field_of(schema, "const")) add_value(*value);
    if (const Json* const list = field_of(schema, "enum"); list != nullptr && list->is_array())
      for (const Json& value : *list) add_value(value);
  }
  std::vector<std::string> take() { return std::move(types_); }

 private:
  void add_value(const Json& value) {
    types_.emplace_back(value.type_name());
    if (value.is_number_integer()) types_.emplace_back("integer");
  }

  text::SchemaExpander root_;
  std::vector<std::string> types_;
  uint32_t left_ = 1000;  // limit on the schemas visited, because references may be cyclic
};

// Returns the types that the schema allows for an argument of a call.
std::vector<std::string> types_of(const Tools& tools, std::string_view name, std::string_view key) {
  for (const Json* const some : {&tools.list, &tools.deferred}) {
    if (!some->is_array()) continue;
    for (const Json& tool : *some) {
      const Json* const function = field_of(&tool, "function");
      const Json* const own = field_of(function, "name");
      if (own == nullptr || *own != name) continue;
      const Json* const parameters = field_of(function, "parameters");
      if (parameters == nullptr) return {};
      AllowedTypes types(*parameters);
      types.add(field_of(field_of(parameters, "properties"), key));
      return types.take();
    }
  }
  return {};
}

// Returns whether an argument is plain text although it also parses as the JSON `value`: the schema
// allows strings and not the type of the value.
bool is_text(const std::vector<std::string>& types, const Json& value) {
  const auto allows = [&](const char* type) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (!allows("string") || value.is_string()) return allows("string");
  if (value.is_number_integer() && allows("integer")) return false;
  if (value.is_number()) return !allows("number");
  if (value.is_null()) return !allows("null");
  if (value.is_boolean()) return !allows("boolean");
  return !allows(value.is_array() ? "array" : "object");
}

// Removes one line break at each end, which belongs to the form.
std::string_view value_text(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// Returns where the JSON of a call begins, or npos if the form has none: there quotes do not mark
// strings.
size_t json_begin(std::string_view text, const Calls& syntax) {
  if (syntax.form == Calls::Form::kNamed) return text.find('{');
  if (syntax.form != Calls::Form::kJson) return text.npos;
  size_t begin = text_begin(text);
  if (text.substr(begin).starts_with('[')) begin += 1 + text_begin(text.substr(begin + 1));
  return text.substr(begin).starts_with('{') ? begin : text.npos;
}

// Finds the first mark outside the strings of the JSON at `begin`.
size_t find_unquoted(std::string_view text, std::string_view mark, size_t begin) {
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && text.substr(i).starts_with(mark))
      return i;
  }
  return text.npos;
}

// Finds the closing mark of a tagged call, skipping marks inside values. If the next call begins
// before a value ends, the model forgot the value's closing mark, and the call ends at the mark.
size_t find_outside_values(std::string_view text, std::string_view mark, const Calls& syntax) {
  const auto word = [](std::string_view whole) {
    return whole.substr(0, whole.find_first_of(kSpace));
  };
  const std::string_view open = word(syntax.key_open), close = word(syntax.value_close);
  size_t end = text.find(mark);
  while (end != text.npos && !open.empty() && !close.empty()) {
    const size_t begin = text.rfind(open, end);
    if (begin == text.npos || text.substr(begin, end - begin).find(close) != text.npos) break;
    const size_t closed = text.find(close, end);
    if (text.substr(end, closed - end).find(syntax.open) != text.npos) break;
    end = closed == text.npos ? closed : text.find(mark, closed);
  }
  return end;
}

}  // namespace

Opening find_opening(std::string_view text, const Calls& syntax) {
  Opening opening;
  if (syntax.open.empty()) return opening;
  const size_t open = text.find(syntax.open);
  const std::string_view all = syntax.all_open;
  const size_t outer = all.empty() ? text.npos : text.find(all);
  if (open != text.npos) {
    opening.found = true;
    opening.begin = opening.open = open;
    const bool inside =
        outer < open && text_begin(text.substr(outer + all.size())) >= open - outer - all.size();
    if (inside) opening.begin = outer;
    return opening;
  }
  opening.unsure = std::max(begun_mark(text, syntax.open), begun_mark(text, all));
  // The mark that opens a list of calls is not content if a call may follow.
  if (outer != text.npos) {
    const std::string_view rest = trimmed(text.substr(outer + all.size()));
    if (std::string_view(syntax.open).starts_with(rest)) opening.unsure = text.size() - outer;
  }
  return opening;
}

Inside inside_of(std::string_view text, const Calls& syntax, bool quotes) {
  const std::string_view rest = text.substr(syntax.open.size());
  // In forms without a closing mark a call ends at the next call.
  const std::string_view mark = syntax.close.empty() ? syntax.open : syntax.close;
  size_t end = rest.find(mark);
  if (quotes && json_begin(rest, syntax) < end && end != rest.npos)
    end = find_unquoted(rest, mark, json_begin(rest, syntax));
  if (quotes && syntax.form == Calls::Form::kTagged) end = find_outside_values(rest, mark, syntax);
  Inside inside;
  inside.closed = end != rest.npos;
  inside.text = rest.substr(0, std::min(end, rest.size()));
  inside.past = syntax.open.size() + inside.text.size() +
                (inside.closed && !syntax.close.empty() ? mark.size() : 0);
  return inside;
}

std::optional<ToolCall> named_call(std::string_view text, const Calls& syntax) {
  const size_t open = text.find('{');
  if (open == text.npos) return std::nullopt;
  std::string_view name = trimmed(text.substr(0, open));
  if (!syntax.after_name.empty()) {
    const size_t end = name.find(syntax.after_name);
    if (end == name.npos) return std::nullopt;
    name = trimmed(name.substr(0, end));
  }
  // An id may follow the name between marks, as in get_weather[CALL_ID]abc[ARGS].
  name = trimmed(name.substr(0, name.find_first_of("[<")));
  // A call's number may follow the name, as in get_weather:0.
  const size_t colon = name.rfind(':');
  if (colon != name.npos && name.find_first_not_of("0123456789", colon + 1) == name.npos)
    name = name.substr(0, colon);
  const std::string_view rest = text.substr(open);
  const size_t end = rest.rfind('}');
  if (end == rest.npos) return std::nullopt;
  const auto arguments = parse_json(rest.substr(0, end + 1));
  if (!arguments.ok() || !arguments->is_object()) return std::nullopt;
  return ToolCall{.name = std::string(name), .arguments = to_text(*arguments)};
}

std::optional<ToolCall> tagged_call(std::string_view text, const Calls& syntax,
                                    const Tools& tools) {
  std::string_view rest = text, name;
  // Without arguments the call may end after its name.
  if (syntax.after_name.empty())
    name = rest.substr(0, std::min(rest.find(syntax.key_open), rest.size()));
  else if (!take_before(rest, syntax.after_name, name))
    return std::nullopt;
  name = trimmed(name);
  if (name.empty()) return std::nullopt;
  Json arguments = Json::object();
  std::string_view key, value, skipped;
  while (take_before(rest, syntax.key_open, skipped)) {
    if (!take_before(rest, syntax.key_close, key) || !take_before(rest, syntax.value_close, value))
      return std::nullopt;
    key = trimmed(key);
    value = value_text(value);
    const auto parsed = parse_json(value);
    const bool text = !parsed.ok() || is_text(types_of(tools, name, key), *parsed);
    arguments[std::string(key)] = text ? Json(std::string(value)) : *parsed;
  }
  return ToolCall{.name = std::string(name), .arguments = to_text(arguments)};
}

}  // namespace kvick::server
