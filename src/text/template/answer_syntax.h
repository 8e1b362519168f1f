#pragma once
// How a model writes reasoning and tool calls in its answers. This is learnt by rendering its chat
// template with and without messages that have them, so that no table of models is needed.

#include <string>
#include <string_view>

#include "text/template/chat_template.h"
#include "text/template/message_syntax.h"

namespace kvick::text {

struct AnswerSyntax {
  // Marks around the reasoning before an answer. If the template has none, the defaults remain,
  // because the model may still have learnt the usual marks.
  std::string think_open = "<think>", think_close = "</think>";
  // Each message of an answer begins with a header that names its channel (OpenAI's harmony
  // format): <|channel|>analysis<|message|>...<|end|>.
  bool channels = false;

  struct Calls {
    enum class Form : uint8_t {
      kJson,   // open {"name": NAME, "arguments": {...}} close, or a list of such objects
      kNamed,  // open NAME after_name {...} close; if open is empty, the whole answer is one call
      // open NAME after_name, for each argument key_open KEY key_close VALUE value_close, close
      kTagged,
      kPython,  // open [NAME(KEY=VALUE, ...), ...] close
    };
    Form form = Form::kJson;
    std::string open = "<tool_call>", close = "</tool_call>";  // close may be empty
    // Marks around all calls of an answer; empty: none.
    std::string all_open, all_close;
    std::string name_key = "name";  // kJson; empty: the object is {NAME: {...}}
    std::string after_name;
    std::string key_open, key_close, value_close;
    bool written = true;  // false: the template omits calls from earlier messages
  };
  Calls calls;
  MessageSyntax messages;  // how earlier answers are given to the template

  // Whether the piece is a mark, which must appear as text even if it is a special token.
  bool has_mark(std::string_view piece) const;
};

// source: of the template. If rendering fails or shows no calls, the usual marks stay.
AnswerSyntax learn_answer_syntax(const ChatTemplate& chat_template, std::string_view source,
                                 const RenderOptions& options);

}  // namespace kvick::text
