#pragma once
// How a model writes reasoning and tool calls in its answers. Found by rendering its chat
// template with and without messages that have them, so that no table of models is
// needed.

#include <string>
#include <string_view>

#include "text/template/chat_template.h"
#include "text/template/message_syntax.h"

namespace kvick::text {

struct AnswerSyntax {
  // Marks around the reasoning before an answer. The default is for models whose template has none:
  // they may still have learnt the usual ones.
  std::string think_open = "<think>", think_close = "</think>";
  // Messages of an answer begin with a header that names their channel (OpenAI's harmony format):
  // <|channel|>analysis<|message|>...<|end|>.
  bool channels = false;

  struct Calls {
    enum class Form : uint8_t {
      kJson,    // open {"name": NAME, "arguments": {...}} close, or a list of such objects
      kNamed,   // open NAME after_name {...} close; without open all of the answer is one call
      kTagged,  // open NAME after_name, of each argument key_open KEY key_close VALUE value_close,
                // then close
      kPython,  // open [NAME(KEY=VALUE, ...), ...] close
    };
    Form form = Form::kJson;
    std::string open = "<tool_call>", close = "</tool_call>";  // close may be empty
    // Around all calls of an answer; empty: nothing.
    std::string all_open, all_close;
    std::string name_key = "name";  // kJson; empty: the object is {NAME: {...}}
    std::string after_name;
    std::string key_open, key_close, value_close;
    bool written = true;  // false: the template leaves them out of the messages before
  };
  Calls calls;
  MessageSyntax messages;  // how answers come back

  // All marks that must be seen as text though they may be special tokens.
  bool has_mark(std::string_view piece) const;
};

// source: the template's. Where rendering fails, or says nothing, the usual marks stay.
AnswerSyntax learn_answer_syntax(const ChatTemplate& chat_template, std::string_view source,
                                 const RenderOptions& options);

}  // namespace kvick::text
