#include "text/template/answer_syntax.h"

#include <algorithm>
#include <optional>

namespace kvick::text {
namespace {

using Json = Probe::Json;

constexpr std::string_view kName = Probe::kName, kKey = Probe::kKey, kValue = Probe::kValue,
                           kSecondKey = Probe::kSecondKey, kSecondValue = Probe::kSecondValue,
                           kThought = Probe::kThought, kText = Probe::kText;
constexpr std::string_view kSpace = " \t\r\n", kFence = "```json";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Returns the mark that ends a text, such as <think> or [THINK]; empty: there is none.
std::string_view last_mark(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return "";
  const char open = text.back() == '>' ? '<' : text.back() == ']' ? '[' : '\0';
  const size_t begin = open == '\0' ? text.npos : text.rfind(open);
  return begin == text.npos ? "" : text.substr(begin);
}
std::string_view first_mark(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return "";
  const char close = text.front() == '<' ? '>' : text.front() == '[' ? ']' : '\0';
  const size_t end = close == '\0' ? text.npos : text.find(close);
  return end == text.npos ? "" : text.substr(0, end + 1);
}

void learn_thinking(const Probe& probe, AnswerSyntax& syntax) {
  const std::string& field = syntax.messages.thoughts;
  if (field.empty()) return;
  Json answer = {{"role", "assistant"}, {"content", kText}};
  if (field == "content")
    answer["content"] = Json::array(
        {{{"type", "thinking"}, {"thinking", kThought}}, {{"type", "text"}, {"text", kText}}});
  else
    answer[field] = kThought;
  const std::optional<std::string> text = probe.render_answer(answer, false);
  const size_t at = text ? text->find(kThought) : std::string::npos;
  if (at == std::string::npos) return;
  const std::string_view before = std::string_view(*text).substr(0, at);
  const std::string_view behind = std::string_view(*text).substr(at + kThought.size());
  const std::string_view open = last_mark(before), close = first_mark(behind);
  if (open.empty() || close.empty()) return;
  syntax.think_open = open, syntax.think_close = close;
}

// Renders an answer with calls, and returns the text from the beginning of the answer.
std::optional<std::string> rendered_calls(const Probe& probe, const MessageSyntax& messages,
                                          bool twice) {
  const std::optional<std::string> question = probe.render(Json::array(), true, true);
  if (!question) return std::nullopt;
  for (const bool null_content : {messages.null_content, !messages.null_content}) {
    const std::optional<std::string> text =
        probe.render_answer(Probe::calling(null_content, messages.text_arguments, twice), true);
    if (!text) continue;
    // The header of the answer is what the answer and the question with a prompt have in common.
    const auto other =
        std::mismatch(question->begin(), question->end(), text->begin(), text->end()).second;
    auto begin = static_cast<size_t>(other - text->begin());
    // Moves back to the beginning of a mark if the texts differ in the middle of one.
    const size_t mark = begin == 0 ? text->npos : text->find_last_of("<>[]", begin - 1);
    if (mark != text->npos && ((*text)[mark] == '<' || (*text)[mark] == '[')) begin = mark;
    return text->substr(begin);
  }
  return std::nullopt;
}

// Returns where the object that begins at `open` ends.
size_t object_end(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return text.npos;
}

// Learns from the text after the last call: the mark that closes a call, and the one that closes
// all calls, but not the mark that ends the answer.
void learn_close(std::string_view behind, AnswerSyntax::Calls& calls) {
  behind = trimmed(behind);
  // A list of calls is closed by a bracket, and a block of code by a fence.
  for (const std::string_view end : {"]", "```"})
    if (behind.starts_with(end)) behind = trimmed(behind.substr(end.size()));
  calls.close = first_mark(behind);
  if (calls.all_open.empty() || calls.close.empty()) return;
  calls.all_close = first_mark(behind.substr(calls.close.size()));
}

// Of several marks, such as <tool_call><function=, the last opens one call, the others all calls.
void learn_open(std::string_view before, AnswerSyntax::Calls& calls) {
  before = trimmed(before);
  const size_t last = before.find_last_of("<[");
  calls.open = before;
  calls.all_open.clear();
  if (last == before.npos || last == 0) return;
  calls.open = before.substr(last);
  calls.all_open = trimmed(before.substr(0, last));
}

// The mark taken for the opening of all calls may open only the first. Text that precedes both
// names of two calls opens each call.
void learn_repeated_open(std::string_view before, std::string_view between,
                         AnswerSyntax::Calls& calls) {
  before = trimmed(before), between = trimmed(between);
  if (calls.all_open.empty() || between.find(calls.all_open) != between.npos) return;
  const auto same = std::mismatch(before.rbegin(), before.rend(), between.rbegin(), between.rend());
  std::string_view open = before.substr(static_cast<size_t>(same.first.base() - before.begin()));
  open = open.substr(std::min(open.find_first_of("<["), open.size()));
  if (open.empty()) return;
  calls.open = open;
  calls.all_open = trimmed(before.substr(0, before.size() - open.size()));
}

// Learns the marks around the object, or the list of objects, that begins at `open`.
bool learn_json_marks(std::string_view text, size_t open, AnswerSyntax::Calls& calls) {
  const size_t end = object_end(text, open);
  if (end == text.npos) return false;
  std::string_view marks = trimmed(text.substr(0, open));
  if (marks.ends_with("[")) marks = trimmed(marks.substr(0, marks.size() - 1));
  calls.form = AnswerSyntax::Calls::Form::kJson;
  if (marks.ends_with(kFence)) {  // after a word, as in Action: ```json [...] ```
    marks = trimmed(marks.substr(0, marks.size() - kFence.size()));
    const size_t word = marks.find_last_of(">]\n");
    calls.open = kFence, calls.close = kFence.substr(0, 3);
    calls.all_open = trimmed(marks.substr(word == marks.npos ? 0 : word + 1));
    return true;
  }
  calls.open = last_mark(marks);
  calls.close.clear();
  if (!calls.open.empty()) learn_close(text.substr(end), calls);
  return true;
}

// Learns calls of the form {"NAME": {...}}.
bool learn_keyed(std::string_view text, size_t name, AnswerSyntax::Calls& calls) {
  const std::string_view before = trimmed(text.substr(0, name - 1));
  std::string_view behind = text.substr(name + kName.size());
  if (!before.ends_with('{') || !behind.starts_with('"')) return false;
  behind = trimmed(behind.substr(1));
  if (!behind.starts_with(':') || !trimmed(behind.substr(1)).starts_with('{')) return false;
  calls.name_key.clear();
  return learn_json_marks(
      text, before.size() - 1 + static_cast<size_t>(before.data() - text.data()), calls);
}

// Learns calls of the form {"name": "NAME", "arguments": {...}}.
bool learn_json(std::string_view text, size_t name, AnswerSyntax::Calls& calls) {
  // `before` must end with "KEY": "
  const std::string_view before = text.substr(0, name);
  if (!before.ends_with('"')) return false;
  if (learn_keyed(text, name, calls)) return true;
  std::string_view key = trimmed(before.substr(0, before.size() - 1));
  if (!key.ends_with(':')) return false;
  key = trimmed(key.substr(0, key.size() - 1));
  if (key.size() < 2 || !key.ends_with('"')) return false;
  const size_t quote = key.rfind('"', key.size() - 2);
  if (quote == key.npos) return false;
  const auto at = static_cast<size_t>(key.data() + quote - text.data());
  const size_t open = text.substr(0, at).rfind('{');
  if (open == text.npos) return false;
  calls.name_key = key.substr(quote + 1, key.size() - quote - 2);
  // No model writes {"type": "function", "function": {"name": ...}}.
  return calls.name_key != "function" && learn_json_marks(text, open, calls);
}

// Learns calls of the form NAME{...}, with text between the two.
bool learn_named(std::string_view text, size_t name, size_t key, AnswerSyntax::Calls& calls) {
  const size_t open = text.substr(0, key).rfind('{');
  if (open == text.npos || open < name) return false;
  const size_t end = object_end(text, open);
  if (end == text.npos || text.substr(open, end - open).find('"') == text.npos) return false;
  calls.form = AnswerSyntax::Calls::Form::kNamed;
  learn_open(text.substr(0, name), calls);
  const std::string_view after =
      trimmed(text.substr(name + kName.size(), open - name - kName.size()));
  // The call's number may stand before the last mark.
  const std::string_view mark = last_mark(after);
  calls.after_name = mark.empty() ? after : mark;
  learn_close(text.substr(end), calls);
  return !calls.open.empty();
}

bool learn_tagged(std::string_view text, size_t name, size_t key, AnswerSyntax::Calls& calls) {
  const size_t value = text.find(kValue, key), second = text.find(kSecondKey, key);
  const size_t last = text.find(kSecondValue, key);
  if (value == text.npos || second == text.npos || last == text.npos || value > second)
    return false;
  const auto between = [&](size_t from, size_t to) {
    return trimmed(text.substr(from, to - from));
  };
  const std::string_view gap = between(value + kValue.size(), second);  // value_close key_open
  const std::string_view before_key = between(name + kName.size(), key);
  // key_open is the common suffix of the gap and the text before the first key.
  size_t same = 0;
  while (same < gap.size() && same < before_key.size() &&
         gap[gap.size() - 1 - same] == before_key[before_key.size() - 1 - same])
    ++same;
  std::string_view key_open = gap.substr(gap.size() - same);
  key_open = key_open.substr(std::min(key_open.find('<'), key_open.size()));
  if (key_open.empty()) return false;
  calls.form = AnswerSyntax::Calls::Form::kTagged;
  learn_open(text.substr(0, name), calls);
  calls.after_name = trimmed(before_key.substr(0, before_key.size() - key_open.size()));
  calls.key_open = key_open;
  calls.key_close = between(key + kKey.size(), value);
  calls.value_close = trimmed(gap.substr(0, gap.size() - key_open.size()));
  std::string_view behind = trimmed(text.substr(last + kSecondValue.size()));
  if (!behind.starts_with(calls.value_close)) return false;
  behind = trimmed(behind.substr(calls.value_close.size()));
  learn_close(behind, calls);
  return !calls.open.empty() && !calls.value_close.empty();
}

// Returns the mark that ends an answer of text; empty: none, or an end token.
std::string end_of_turn(const Probe& probe) {
  const auto text = probe.render_answer({{"role", "assistant"}, {"content", kText}}, false);
  const size_t at = text ? text->find(kText) : std::string::npos;
  if (at == std::string::npos) return "";
  return std::string(first_mark(std::string_view(*text).substr(at + kText.size())));
}

// Skips reasoning before the calls.
std::string_view behind_thoughts(std::string_view text, const AnswerSyntax& syntax) {
  const size_t thought = text.find(syntax.think_close);
  return thought == text.npos ? text : text.substr(thought + syntax.think_close.size());
}

void learn_two_calls(const Probe& probe, const AnswerSyntax& syntax, AnswerSyntax::Calls& calls) {
  const std::optional<std::string> text = rendered_calls(probe, syntax.messages, true);
  if (!text) return;
  const std::string_view both = behind_thoughts(*text, syntax);
  const size_t name = both.find(kName), second = both.find(Probe::kSecondName);
  const size_t last = both.find(kSecondValue);
  if (name == both.npos || second == both.npos || last == both.npos || last > second) return;
  learn_repeated_open(both.substr(0, name), both.substr(last, second - last), calls);
  // The mark that closes all calls may appear only after several calls.
  const size_t open = both.find('{', second);
  const size_t end = open == both.npos ? open : object_end(both, open);
  AnswerSyntax::Calls closed = calls;
  if (end != both.npos) learn_close(both.substr(end), closed);
  if (closed.close == calls.close) calls.all_close = closed.all_close;
}

// Returns false if rendering a call shows none.
bool learn_calls(const Probe& probe, AnswerSyntax& syntax) {
  using Form = AnswerSyntax::Calls::Form;
  const std::optional<std::string> text = rendered_calls(probe, syntax.messages, false);
  if (!text) return false;
  syntax.calls.written = text->find(kName) != text->npos;
  const std::string_view call = behind_thoughts(*text, syntax);
  const size_t name = call.find(kName), key = call.find(kKey);
  if (name == call.npos || key == call.npos) return false;
  AnswerSyntax::Calls calls;
  const bool learnt =
      learn_json(call, name, calls) ||
      (key > name && (learn_named(call, name, key, calls) || learn_tagged(call, name, key, calls)));
  if (!learnt) return false;
  if (calls.form == Form::kNamed) learn_two_calls(probe, syntax, calls);
  const std::string end = end_of_turn(probe);
  for (std::string* close : {&calls.close, &calls.all_close})
    if (*close == end) close->clear();
  syntax.calls = calls;
  return true;
}

// Sets the calls of model families whose templates omit them, or write them in another form than
// the models do.
void know_calls(std::string_view source, AnswerSyntax::Calls& calls) {
  using Form = AnswerSyntax::Calls::Form;
  const auto has = [&](std::string_view words) { return source.find(words) != source.npos; };
  if (has("List of tools: ")) {  // LFM2
    calls.form = Form::kPython;
    calls.open = "<|tool_call_start|>", calls.close = "<|tool_call_end|>";
  } else if (has("<|python_start|>")) {  // Llama 4; its template writes content there
    calls.open = "<|python_start|>", calls.close = "<|python_end|>";
  } else if (has("<|/tool|>")) {  // Phi-4-mini
    calls.open = "<|tool_call|>", calls.close = "<|/tool_call|>";
  } else if (has("[gMASK]<sop>")) {  // GLM-4: the name, a line break and the arguments
    calls.form = Form::kNamed;
    calls.open.clear(), calls.close.clear();
  }
}

}  // namespace

bool AnswerSyntax::has_mark(std::string_view piece) const {
  if (piece.empty()) return false;
  if (channels && (piece == "<|channel|>" || piece == "<|message|>" || piece == "<|start|>" ||
                   piece == "<|end|>" || piece == "<|constrain|>"))
    return true;
  for (const std::string& text : {think_open, think_close, calls.open, calls.close, calls.all_open,
                                  calls.all_close, calls.after_name, calls.key_open})
    if (text.find(piece) != text.npos) return true;
  return false;
}

AnswerSyntax learn_answer_syntax(const ChatTemplate& chat_template, std::string_view source,
                                 const RenderOptions& options) {
  AnswerSyntax syntax;
  const Probe probe(chat_template, options);
  syntax.messages = learn_message_syntax(probe);
  syntax.channels =
      source.find("<|channel|>") != source.npos && source.find("<|message|>") != source.npos;
  if (syntax.channels) return syntax;
  learn_thinking(probe, syntax);
  const bool learnt = learn_calls(probe, syntax);
  if (!learnt || syntax.calls.open == "<|python_end|>") know_calls(source, syntax.calls);
  return syntax;
}

}  // namespace kvick::text
