// tool_choice with some of the tools, tools beside a schema, and JSON of models that think.

#include <cmath>
#include <fstream>
#include <sstream>

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

// Replaces a text in a file, wherever it stands.
void rename_in(const std::string& path, std::string_view from, std::string_view to) {
  std::stringstream all;
  all << std::ifstream(path).rdbuf();
  std::string text = all.str();
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  std::ofstream(path) << text;
}

// Makes a tiny model whose template opens thoughts, unless enable_thinking is false and `always` is
// not set. mark: </think> is one token.
std::unique_ptr<engine::Engine> make_thinker(bool mark) {
  base::ThreadPool pool(1);
  const auto folder = model::write_model(model::tiny_spec(tools::Arch::kLlama), pool, true);
  for (const char* file : {"/tokenizer.json", "/tokenizer_config.json"})
    if (mark) rename_in(folder + file, "<|im_start|>", "</think>");
  std::ofstream(folder + "/chat_template.jinja")
      << "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<think>"
         "{% if enable_thinking is false and always is not defined %}</think>{% endif %}";
  auto opened = engine::Engine::open({.model_path = folder, .threads = 1});
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
  return std::move(opened).value();
}
const engine::Engine& thinker() {
  static const std::unique_ptr<engine::Engine> kEngine = make_thinker(false);
  return *kEngine;
}
const engine::Engine& marked_thinker() {
  static const std::unique_ptr<engine::Engine> kEngine = make_thinker(true);
  return *kEngine;
}

// Plans a chat with these fields.
Plan planned(const char* fields, const engine::Engine& engine) {
  const MakeConstraint any = [](const Json&) {
    return base::Result<std::shared_ptr<const text::Constraint>>(
        std::shared_ptr<const text::Constraint>(std::make_shared<AnyText>()));
  };
  const std::function<uint64_t()> random = [] { return 1; };
  const auto request = parse_chat(
      Json::parse(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", fields)));
  EXPECT_TRUE(request.ok()) << request.error().message;
  auto plan = plan_chat(*request, {engine, any, random});
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return *std::move(plan);
}

// Returns the prompt of a chat with these fields.
std::string prompt_with(const char* fields, const engine::Engine& engine = thinker()) {
  return engine.tokenizer().decode(planned(fields, engine).jobs[0].prompt, true);
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

TEST(JsonAnswer, HasNoLongerPromptThanAsked) {
  const std::string fields = R"(,"json_schema":{},"chat_template_kwargs":{"always":true})";
  const std::vector<engine::Token> whole = planned(fields.c_str(), thinker()).jobs[0].prompt;
  const std::string cut = fmt::format("{},\"truncate_prompt_tokens\":{}", fields, whole.size() - 1);
  EXPECT_EQ(planned(cut.c_str(), thinker()).jobs[0].prompt,
            (std::vector<engine::Token>{whole.begin() + 1, whole.end()}));
}

constexpr const char* kToolsAndSchema = R"(,"tools":[{"type":"function",
    "function":{"name":"f"}}],"json_schema":{"type":"object"})";

TEST(JsonAnswer, OfAnAgentStandsBehindItsThoughts) {
  const engine::Engine& engine = marked_thinker();
  const text::Tokenizer& tokenizer = engine.tokenizer();
  const Plan plan = planned(kToolsAndSchema, engine);
  const engine::Job& job = plan.jobs[0];
  EXPECT_TRUE(tokenizer.decode(job.prompt, true).ends_with("<user>x<think>"));
  EXPECT_TRUE(plan.inside_thoughts);
  EXPECT_EQ(plan.syntax, &engine.answer_syntax());
  EXPECT_TRUE(job.special_text);  // the mark is a control token
  const auto form = job.constraint->clone();
  const auto may_end = [&] {
    std::vector<float> logits(tokenizer.vocabulary().pieces.size(), 1.0F);
    form->mask(logits);
    return !std::isinf(logits[static_cast<size_t>(tokenizer.ends().at(0))]);
  };
  EXPECT_FALSE(may_end());
  form->accept(tokenizer.encode("</think>", false, true).at(0));
  EXPECT_TRUE(may_end());  // AnyText is complete from the start
}

TEST(JsonAnswer, StandsBehindThoughtsThatTheRequestAsksFor) {
  const engine::Engine& engine = marked_thinker();
  constexpr const char* kOpen = "<user>x<think>";
  for (const char* fields : {R"(,"json_schema":{},"chat_template_kwargs":{"enable_thinking":true})",
                             R"(,"json_schema":{},"chat_template_kwargs":{"thinking":true})",
                             R"(,"json_schema":{},"reasoning_effort":"low")"})
    EXPECT_EQ(prompt_with(fields, engine), kOpen) << fields;
  for (const char* fields :
       {R"(,"json_schema":{})", R"(,"json_schema":{},"reasoning_effort":"none")",
        R"(,"json_schema":{},"reasoning_format":"none","chat_template_kwargs":{"thinking":true})",
        R"(,"json_schema":{},"chat_template_kwargs":{"enable_thinking":false})",
        R"(,"json_schema":{},"reasoning_effort":"high",
           "chat_template_kwargs":{"enable_thinking":false,"always":true})"}) {
    const Plan plan = planned(fields, engine);
    const std::string prompt = engine.tokenizer().decode(plan.jobs[0].prompt, true);
    EXPECT_TRUE(prompt.starts_with(kOpen)) << fields;
    EXPECT_NE(prompt.find("</think>"), std::string::npos) << fields;
    EXPECT_EQ(plan.syntax, nullptr) << fields;
  }
  const std::string call = prompt_with(R"(,"tool_choice":"required",
      "tools":[{"type":"function","function":{"name":"f"}}])",
                                       engine);
  EXPECT_NE(call.find("</think>"), std::string::npos) << call;
  // Where the mark is several tokens, the thoughts are closed as before.
  EXPECT_NE(prompt_with(kToolsAndSchema).find("</think>"), std::string::npos);
}

// Some templates open thoughts even if they are told not to.
TEST(JsonAnswer, OfAnAgentThatDeclinesThoughtsHasNone) {
  const engine::Engine& engine = marked_thinker();
  for (const char* declines :
       {R"(,"reasoning_effort":"none","chat_template_kwargs":{"always":true})",
        R"(,"chat_template_kwargs":{"enable_thinking":false,"always":true})",
        R"(,"chat_template_kwargs":{"thinking":false,"always":true})"}) {
    const Plan plan = planned((std::string(kToolsAndSchema) + declines).c_str(), engine);
    const std::string prompt = engine.tokenizer().decode(plan.jobs[0].prompt, true);
    EXPECT_NE(prompt.find("</think>"), std::string::npos) << declines;
    EXPECT_EQ(plan.syntax, nullptr) << declines;
  }
}

// The whole way: what the client gets of thoughts, a call and an answer.
TEST_F(ApiTest, GivesAnAgentsThoughtsApartFromItsJson) {
  make({}, marked_thinker());
  const auto answered = [&](const char* text) {
    Seen seen;
    post(seen, "/v1/chat/completions",
         R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function",
             "function":{"name":"f"}}],"response_format":{"type":"json_object"}})");
    EXPECT_FALSE(service_.jobs.empty()) << seen.response.body;
    const size_t job = service_.jobs.size() - 1;
    service_.jobs.at(job).on_piece({.text = text, .finish = engine::Finish::kEnd});
    end(job);
    return seen.json()["choices"][0]["message"];
  };
  const Json called = answered("hm\n</think>\n\n{\"name\":\"f\",\"arguments\":{\"x\":1}}");
  EXPECT_EQ(called["reasoning_content"], "hm");
  EXPECT_EQ(called["tool_calls"][0]["function"],
            Json::parse(R"({"name":"f","arguments":"{\"x\":1}"})"));
  const Json said = answered("hm</think>{\"n\":1}");
  EXPECT_EQ(said["reasoning_content"], "hm");
  EXPECT_EQ(said["content"], R"({"n":1})");
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
