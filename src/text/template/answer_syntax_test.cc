#include "text/template/answer_syntax.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

#include "base/testing/source_folder.h"

namespace kvick::text {
namespace {

using Form = AnswerSyntax::Calls::Form;

AnswerSyntax learnt(const std::string& source) {
  auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return learn_answer_syntax(*parsed, source, {.now = [] { return std::tm{.tm_mday = 1}; }});
}

AnswerSyntax learnt_from_file(const std::string& name) {
  std::ifstream file(base::source_folder() + "/tests/reference/templates/" + name);
  return learnt({std::istreambuf_iterator<char>(file), {}});
}

// Returns a template that writes an assistant's turns as a model family does; `call` renders one
// call.
std::string with_calls(const std::string& all_open, const std::string& call,
                       const std::string& all_close) {
  return "{%- for m in messages -%}{%- if m.role == 'user' -%}[U]{{ m.content }}[/U]"
         "{%- elif m.tool_calls -%}[A]" +
         all_open + "{%- for c in m.tool_calls %}" + call + "{% endfor -%}" + all_close +
         "</s>{%- else -%}[A]{{ m.content }}</s>{%- endif -%}{%- endfor -%}"
         "{%- if add_generation_prompt -%}[A]{%- endif -%}";
}

TEST(AnswerSyntax, OfHermesIsJsonBetweenMarks) {
  const AnswerSyntax syntax = learnt_from_file("qwen3.jinja");
  EXPECT_EQ(syntax.calls.form, Form::kJson);
  EXPECT_EQ(syntax.calls.open, "<tool_call>");
  EXPECT_EQ(syntax.calls.close, "</tool_call>");
  EXPECT_EQ(syntax.think_open, "<think>");
  EXPECT_EQ(syntax.think_close, "</think>");
  EXPECT_FALSE(syntax.channels);
}

TEST(AnswerSyntax, OfMistralIsAListBehindAMark) {
  const AnswerSyntax syntax = learnt_from_file("mistral_nemo.jinja");
  EXPECT_EQ(syntax.calls.form, Form::kJson);
  EXPECT_EQ(syntax.calls.open, "[TOOL_CALLS]");
  EXPECT_EQ(syntax.calls.close, "");
}

TEST(AnswerSyntax, OfLfm2HasMarksThatItsTemplateDoesNotWrite) {
  const std::string offers =
      "{%- if tools -%}<|im_start|>system\nList of tools: <|tool_list_start|>[{%- for t in tools "
      "-%}{{ t|tojson }}{%- endfor -%}]<|tool_list_end|><|im_end|>\n{%- endif -%}";
  const std::string turn = "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}";
  const std::string end =
      "<|im_end|>\n{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant\n"
      "{%- endif -%}";
  const std::string calls =
      "{%- if m.tool_calls -%}<|tool_call_start|>[{%- for c in m.tool_calls -%}"
      "{{ c.function.name }}({%- for k, v in c.function.arguments.items() -%}{{ k }}=\"{{ v }}\""
      "{%- if not loop.last -%}, {% endif -%}{%- endfor -%}){%- endfor -%}]<|tool_call_end|>"
      "{%- endif -%}";
  for (const std::string& own : {std::string(), calls}) {  // LFM2, LFM2.5
    const AnswerSyntax syntax = learnt(offers + turn + own + end);
    EXPECT_EQ(syntax.calls.form, Form::kPython);
    EXPECT_EQ(syntax.calls.written, !own.empty());
    EXPECT_EQ(syntax.calls.open, "<|tool_call_start|>");
    EXPECT_EQ(syntax.calls.close, "<|tool_call_end|>");
    EXPECT_TRUE(syntax.has_mark("<|tool_call_start|>"));
  }
}

TEST(AnswerSyntax, MayHaveTheNameAsAKeyOfJson) {  // Apertus
  const AnswerSyntax::Calls calls =
      learnt(with_calls("<|tools_prefix|>[",
                        "{\"{{ c.function.name }}\": {{ c.function.arguments|tojson }}}",
                        "]<|tools_suffix|>"))
          .calls;
  EXPECT_EQ(calls.form, Form::kJson);
  EXPECT_EQ(calls.name_key, "");
  EXPECT_EQ(calls.open, "<|tools_prefix|>");
  EXPECT_EQ(calls.close, "<|tools_suffix|>");
  EXPECT_TRUE(calls.written);
}

TEST(AnswerSyntax, MayOpenAllCallsBeforeTheFirst) {
  for (const char* name : {"deepseek_r1.jinja", "deepseek_r1_distill.jinja"}) {
    const AnswerSyntax::Calls calls = learnt_from_file(name).calls;
    EXPECT_EQ(calls.form, Form::kNamed) << name;
    EXPECT_EQ(calls.all_open, "<｜tool▁calls▁begin｜>");
    EXPECT_EQ(calls.open, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>");
    EXPECT_EQ(calls.close, "<｜tool▁call▁end｜>");
    EXPECT_EQ(calls.all_close, "<｜tool▁calls▁end｜>");
  }
}

TEST(AnswerSyntax, MayHaveAWordAndAFenceForMarks) {
  const AnswerSyntax::Calls calls = learnt_from_file("command_r.jinja").calls;
  EXPECT_EQ(calls.form, Form::kJson);
  EXPECT_EQ(calls.all_open, "Action:");
  EXPECT_EQ(calls.open, "```json");
  EXPECT_EQ(calls.close, "```");
  EXPECT_EQ(calls.name_key, "tool_name");
}

TEST(AnswerSyntax, OfSomeFamiliesIsKnown) {
  EXPECT_EQ(learnt_from_file("phi4_mini.jinja").calls.open, "<|tool_call|>");
  EXPECT_EQ(learnt_from_file("llama4.jinja").calls.open, "<|python_start|>");
  EXPECT_EQ(learnt_from_file("llama4.jinja").calls.close, "<|python_end|>");
  const AnswerSyntax::Calls glm = learnt_from_file("glm4.jinja").calls;
  EXPECT_EQ(glm.form, Form::kNamed);
  EXPECT_EQ(glm.open, "");
}

TEST(AnswerSyntax, SaysHowAnswersComeBack) {
  struct Case {
    const char *file, *thoughts, *result_role;
    bool null_content, text_arguments;
  };
  for (const Case& one :
       {Case{"qwen3.jinja", "reasoning_content", "tool", false, false},
        Case{"qwen2_5.jinja", "", "tool", false, false},
        Case{"gpt_oss.jinja", "thinking", "tool", false, false},
        Case{"ministral3.jinja", "content", "tool", false, false},
        Case{"mistral_nemo.jinja", "", "tool", false, false},
        Case{"deepseek_r1.jinja", "", "tool", true, false},
        Case{"deepseek_r1_distill.jinja", "", "tool", true, true},
        Case{"gemma3.jinja", "", "", false, false}, Case{"phi3.jinja", "", "", false, false},
        Case{"zephyr.jinja", "", "", false, false},
        Case{"glm4.jinja", "", "observation", false, false}}) {
    const MessageSyntax messages = learnt_from_file(one.file).messages;
    EXPECT_EQ(messages.thoughts, one.thoughts) << one.file;
    EXPECT_EQ(messages.result_role, one.result_role) << one.file;
    EXPECT_EQ(messages.null_content, one.null_content) << one.file;
    EXPECT_EQ(messages.text_arguments, one.text_arguments) << one.file;
  }
}

TEST(AnswerSyntax, MayNameTheFunctionBeforeItsArguments) {
  const AnswerSyntax::Calls mistral =
      learnt(with_calls("",
                        "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}",
                        ""))
          .calls;
  EXPECT_EQ(mistral.form, Form::kNamed);
  EXPECT_EQ(mistral.open, "[TOOL_CALLS]");
  EXPECT_EQ(mistral.after_name, "[ARGS]");
  EXPECT_EQ(mistral.close, "");
  const AnswerSyntax::Calls kimi =
      learnt(with_calls("<|section|>",
                        "<|call|>functions.{{ c.function.name }}:0<|args|>"
                        "{{ c.function.arguments|tojson }}<|/call|>",
                        "<|/section|>"))
          .calls;
  EXPECT_EQ(kimi.form, Form::kNamed);
  EXPECT_EQ(kimi.all_open, "<|section|>");
  EXPECT_EQ(kimi.open, "<|call|>functions.");
  EXPECT_EQ(kimi.after_name, "<|args|>");
  EXPECT_EQ(kimi.close, "<|/call|>");
  EXPECT_EQ(kimi.all_close, "<|/section|>");
}

TEST(AnswerSyntax, MayPutEachArgumentBetweenMarks) {
  const AnswerSyntax::Calls coder =
      learnt(with_calls("",
                        "<tool_call>\n<function={{ c.function.name }}>\n"
                        "{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n"
                        "{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>",
                        ""))
          .calls;
  EXPECT_EQ(coder.form, Form::kTagged);
  EXPECT_EQ(coder.all_open, "<tool_call>");
  EXPECT_EQ(coder.open, "<function=");
  EXPECT_EQ(coder.after_name, ">");
  EXPECT_EQ(coder.key_open, "<parameter=");
  EXPECT_EQ(coder.key_close, ">");
  EXPECT_EQ(coder.value_close, "</parameter>");
  EXPECT_EQ(coder.close, "</function>");
  EXPECT_EQ(coder.all_close, "</tool_call>");
  const AnswerSyntax::Calls glm =
      learnt(with_calls("",
                        "<tool_call>{{ c.function.name }}\n"
                        "{% for k, v in c.function.arguments.items() %}"
                        "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n"
                        "{% endfor %}</tool_call>",
                        ""))
          .calls;
  EXPECT_EQ(glm.form, Form::kTagged);
  EXPECT_EQ(glm.open, "<tool_call>");
  EXPECT_EQ(glm.after_name, "");
  EXPECT_EQ(glm.key_open, "<arg_key>");
  EXPECT_EQ(glm.key_close, "</arg_key>\n<arg_value>");
  EXPECT_EQ(glm.value_close, "</arg_value>");
  EXPECT_EQ(glm.close, "</tool_call>");
}

TEST(AnswerSyntax, ThoughtsMayHaveOtherMarks) {
  const AnswerSyntax syntax = learnt(
      "{%- for m in messages -%}{{ m.role }}: {% if m.reasoning_content %}[THINK]"
      "{{ m.reasoning_content }}[/THINK]{% endif %}{{ m.content }}\n{%- endfor -%}");
  EXPECT_EQ(syntax.think_open, "[THINK]");
  EXPECT_EQ(syntax.think_close, "[/THINK]");
  EXPECT_EQ(learnt_from_file("ministral3.jinja").think_open, "[THINK]");
}

TEST(AnswerSyntax, StaysAsUsualWhereATemplateRefusesOrSaysNothing) {
  for (const char* source :
       {"{{ raise_exception('no') }}", "{% for m in messages %}{{ m.content }}{% endfor %}", ""}) {
    const AnswerSyntax syntax = learnt(source);
    EXPECT_EQ(syntax.think_open, "<think>") << source;
    EXPECT_EQ(syntax.calls.open, "<tool_call>") << source;
    EXPECT_EQ(syntax.calls.form, Form::kJson) << source;
  }
}

TEST(AnswerSyntax, HasChannelsWhereTheTemplateNamesThem) {
  const AnswerSyntax syntax = learnt("<|start|>assistant<|channel|>final<|message|>");
  EXPECT_TRUE(syntax.channels);
  EXPECT_TRUE(syntax.has_mark("<|channel|>"));
  EXPECT_FALSE(syntax.has_mark("<|return|>"));
}

}  // namespace
}  // namespace kvick::text
