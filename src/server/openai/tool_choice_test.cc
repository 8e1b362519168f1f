// tool_choice with some of the tools, tools beside a schema, and JSON of models that think.

#include <fstream>

#include "server/openai/plan.h"
#include "server/testing/api.h"
#include "server/testing/requests.h"
#include "text/schema/test_schema.h"

namespace kvick::server {
namespace {

constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}},
                 {"type":"function","function":{"name":"h"}}],"tool_choice":)";

std::string choosing(const char* allowed) {
  return fmt::format(R"({}{{"type":"allowed_tools","allowed_tools":{}}})", kTools, allowed);
}

ChatRequest chosen(const char* allowed) {
  auto request = parse_chat(Json::parse(
      fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", choosing(allowed))));
  EXPECT_TRUE(request.ok()) << request.error().message;
  return *std::move(request);
}

TEST(ToolChoice, AllowsSomeOfTheToolsAndShowsTheTemplateAll) {
  const ChatRequest request = chosen(R"({"mode":"auto","tools":[
      {"type":"function","function":{"name":"h"}},{"type":"function","function":{"name":"f"}}]})");
  EXPECT_EQ(request.tools.names, (std::vector<std::string>{"h", "f"}));
  EXPECT_EQ(request.tools.choice, Tools::Choice::kAuto);
  EXPECT_TRUE(request.response_format.is_null());
  EXPECT_EQ(request.variables["tools"].size(), 3U);
}

TEST(ToolChoice, RequiresACallOfOneOfThem) {
  const ChatRequest request =
      chosen(R"({"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]})");
  EXPECT_EQ(request.tools.choice, Tools::Choice::kRequired);
  const Json& schema = request.response_format["json_schema"]["schema"];
  EXPECT_EQ(schema["properties"]["name"]["enum"], Json::array({"g"}));
}

// Returns the schema of the answer to a request with these tools and this schema.
Json schema_or_call(const char* schema) {
  const auto request = parse_chat(Json::parse(fmt::format(
      R"({{"messages":[{{"role":"user","content":"x"}}]{}"auto","response_format":
          {{"type":"json_schema","json_schema":{{"schema":{}}}}}}})",
      kTools, schema)));
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request->tools.or_call(request->response_format)["json_schema"]["schema"];
}

TEST(ToolChoice, LetsACallTakeThePlaceOfAnAnswerWithASchema) {
  const Json schema = schema_or_call(
      R"({"$defs":{"P":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],
          "additionalProperties":false}},"$ref":"#/$defs/P"})");
  text::expect_texts(
      schema.dump(),
      {R"({"n":1})", R"({"name":"f","arguments":{}})", R"({"name":"g","arguments":{"x":[1]}})"},
      {R"({"n":"a"})", "{}", R"({"name":"x","arguments":{}})", R"({"name":"f","arguments":[]})",
       R"({"name":"f"})", "f"});
}

TEST(ToolChoice, LeavesOtherFormatsAsTheyAre) {
  const Json object = {{"type", "json_object"}};
  Tools tools;
  tools.names = {"f"};
  Json schema = {{"type", "json_schema"}};
  schema["json_schema"]["schema"] = true;
  EXPECT_EQ(tools.or_call(schema), schema);  // no tools are offered
  tools.choice = Tools::Choice::kAuto;
  EXPECT_NE(tools.or_call(schema), schema);
  EXPECT_EQ(tools.or_call(object), object);
  EXPECT_TRUE(tools.or_call(Json()).is_null());
  tools.choice = Tools::Choice::kRequired;
  EXPECT_EQ(tools.or_call(schema), schema);
}

// A tiny model whose template opens thoughts, unless enable_thinking is false and `always` is not
// set.
const engine::Engine& thinker() {
  static const std::unique_ptr<engine::Engine> kEngine = [] {
    base::ThreadPool pool(1);
    const auto folder = model::write_model(model::tiny_spec(tools::Arch::kLlama), pool, true);
    std::ofstream(folder + "/chat_template.jinja")
        << "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<think>"
           "{% if enable_thinking is false and always is not defined %}</think>{% endif %}";
    auto opened = engine::Engine::open({.model_path = folder, .threads = 1});
    std::filesystem::remove_all(folder);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return std::move(opened).value();
  }();
  return *kEngine;
}

// Returns the prompt of a chat with these fields.
std::string prompt_with(const char* fields) {
  const MakeConstraint any = [](const Json&) {
    return base::Result<std::shared_ptr<const text::Constraint>>(
        std::shared_ptr<const text::Constraint>(std::make_shared<AnyText>()));
  };
  const std::function<uint64_t()> random = [] { return 1; };
  const auto request = parse_chat(
      Json::parse(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", fields)));
  EXPECT_TRUE(request.ok()) << request.error().message;
  const auto plan = plan_chat(*request, {thinker(), any, random});
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return thinker().tokenizer().decode(plan->jobs[0].prompt, true);
}

TEST(JsonAnswer, StandsBehindThoughtsThatAreClosed) {
  constexpr const char* kOpen = "<user>x<think>";
  constexpr const char* kClosed = "<user>x<think>\n</think>\n\n";
  EXPECT_EQ(prompt_with(""), kOpen);
  EXPECT_EQ(prompt_with(R"(,"guided_regex":"a")"), kOpen);
  EXPECT_EQ(prompt_with(R"(,"response_format":{"type":"json_object"})"), "<user>x<think></think>");
  EXPECT_EQ(prompt_with(R"(,"json_schema":{},"chat_template_kwargs":{"always":true})"), kClosed);
  EXPECT_EQ(prompt_with(R"(,"json_schema":{},"chat_template_kwargs":{"enable_thinking":true})"),
            kClosed);
  // The template does not describe tools, so a system message does.
  const std::string call = prompt_with(R"(,"tool_choice":"required",
      "tools":[{"type":"function","function":{"name":"f"}}])");
  EXPECT_TRUE(call.ends_with("<user>x<think></think>")) << call;
  EXPECT_EQ(prompt_with(R"(,"json_schema":{},"add_generation_prompt":false)"), kOpen);
}

TEST(ToolChoice, NamesWhatIsWrong) {
  expect_refused(
      {
          {choosing("1"), "tool_choice.allowed_tools", {"object"}},
          {choosing("null"), "tool_choice.allowed_tools", {"missing"}},
          {choosing(R"({"mode":"none","tools":[]})"),
           "tool_choice.allowed_tools.mode",
           {"\"none\"", "required"}},
          {choosing(R"({"tools":[]})"), "tool_choice.allowed_tools.tools", {"1 to 4096"}},
          {choosing(R"({"tools":[{"type":"function","function":{"name":"x"}}]})"),
           "tool_choice.allowed_tools.tools[0]",
           {"\"x\"", "not among the tools"}},
          {choosing(R"({"tools":[{"type":"custom","custom":{"name":"f"}}]})"),
           "tool_choice.allowed_tools.tools[0].type",
           {"function"}},
      },
      true);
}

}  // namespace
}  // namespace kvick::server
