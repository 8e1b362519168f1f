#include <gtest/gtest.h>

#include "server/testing/requests.h"
#include "text/schema/test_schema.h"

namespace kvick::server {
namespace {

TEST(Completion, HasOpenAisDefaults) {
  const CompletionRequest request = completion("");
  EXPECT_EQ(request.max_tokens, 16U);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.sampling.top_k, 0U);
  EXPECT_EQ(request.choices, 1U);
  EXPECT_FALSE(request.stream || request.seed || request.logprobs || request.kv || request.echo);
}

TEST(Completion, ReadsEveryParameter) {
  const CompletionRequest request = completion(
      R"(,"model":"m","stream":true,"stream_options":{"include_usage":true},"n":3,"stop":["a","b"],
      "logprobs":2,"seed":-3,"logit_bias":{"5":-100,"7":2.5},"max_tokens":9,"temperature":0.5,
      "top_p":0.25,"top_k":40,"min_p":0.125,"presence_penalty":1,"frequency_penalty":-2,
      "repetition_penalty":1.5,"priority":-3,"cache_salt":"s","kv":{"strategy":"paged:block=16",
      "type":"q8"},"spec":"lookup:most=5","ignore_eos":true,"user":"u","metadata":{},"suffix":null)");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream && request.include_usage && request.ignore_end);
  EXPECT_EQ(request.choices, 3U);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.logprobs, 2U);
  EXPECT_EQ(request.seed, UINT64_MAX - 2);
  EXPECT_EQ(request.sampling.logit_bias, (std::map<engine::Token, float>{{5, -100}, {7, 2.5F}}));
  EXPECT_EQ(request.max_tokens, 9U);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.25F);
  EXPECT_EQ(request.sampling.top_k, 40U);
  EXPECT_EQ(request.sampling.min_p, 0.125F);
  EXPECT_EQ(request.sampling.presence_penalty, 1);
  EXPECT_EQ(request.sampling.frequency_penalty, -2);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request.priority, -3);
  EXPECT_EQ(request.salt, "s");
  EXPECT_EQ(request.kv->spec.name, "paged");
  EXPECT_EQ(request.kv->k_type, kernels::DType::kQ8);
  EXPECT_EQ(request.spec->way, "lookup");
  EXPECT_EQ(request.spec->most, 5U);
}

TEST(Completion, TakesPromptsOfTextAndOfTokens) {
  const auto prompts = [](const char* prompt) {
    return parse_completion(object_of("prompt", prompt)).value().prompts;
  };
  using Tokens = std::vector<engine::Token>;
  EXPECT_EQ(prompts(R"("a")"), (std::vector<Prompt>{"a"}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(prompts("[1,2]"), (std::vector<Prompt>{Tokens{1, 2}}));
  EXPECT_EQ(prompts("[[1,2],[3]]"), (std::vector<Prompt>{Tokens{1, 2}, Tokens{3}}));
  EXPECT_EQ(prompts(R"([[1],"a"])"), (std::vector<Prompt>{Tokens{1}, "a"}));
  for (const char* wrong : {"1", "{}", "[1,\"a\"]", "[[1,-1]]", "[[[1]]]", "[1.5]", "[4294967296]"})
    EXPECT_FALSE(parse_completion(object_of("prompt", wrong)).ok()) << wrong;
}

TEST(Completion, ReadsBeamSearchByItsNamesInVllm) {
  const CompletionRequest request =
      completion(R"(,"use_beam_search":true,"n":2,"best_of":4,"length_penalty":0.5)");
  EXPECT_EQ(request.beams, 4U);
  EXPECT_EQ(request.choices, 2U);
  EXPECT_EQ(request.length_penalty, 0.5F);
  EXPECT_EQ(completion(R"(,"use_beam_search":true,"n":3)").beams, 3U);
}

TEST(Completion, TakesWholeNumbersThatAreWrittenWithAPoint) {
  EXPECT_EQ(completion(R"(,"max_tokens":7.0)").max_tokens, 7U);
  EXPECT_EQ(completion(R"(,"max_tokens":1e3)").max_tokens, 1000U);
  EXPECT_EQ(completion(R"(,"seed":-2.0)").seed, UINT64_MAX - 1);
  expect_refused(
      {{R"(,"seed":1e30)", "seed", {"whole number"}}, {R"(,"n":65.0)", "n", {"from 1 to 64"}}});
}

TEST(Completion, NamesTheFieldThatIsWrongAndSaysWhatItTakes) {
  expect_refused({
      {R"(,"n":0)", "n", {"from 1 to 64"}},
      {R"(,"n":"2")", "n", {"from 1 to 64"}},
      {R"(,"n":1.5)", "n", {"from 1 to 64"}},
      {R"(,"n":18446744073709551615)", "n", {"from 1 to 64"}},
      {R"(,"stream":1)", "stream", {"true or false"}},
      {R"(,"temperature":-1)", "temperature", {"from 0 to 100"}},
      {R"(,"top_p":0)", "top_p", {"above 0"}},
      {R"(,"stop":[""])", "stop", {"string", "list"}},
      {R"(,"logit_bias":{"x":1})", "logit_bias", {"\"x\"", "token id"}},
      {R"(,"stream_options":{})", "stream_options", {"stream: true"}},
      {R"(,"stream":true,"stream_options":{"x":1})", "stream_options.x", {"\"x\"", "leave it out"}},
      {R"(,"spec":"none:x=1")", "spec", {"none", "'x'"}},
      {R"(,"best_of":2)", "best_of", {"use_beam_search: true"}},
      {R"(,"max_tokens":1,"max_completion_tokens":2)",
       "max_tokens",
       {"max_completion_tokens", "give one"}},
      {R"(,"response_format":{"type":"xml"})",
       "response_format.type",
       {"\"text\"", "\"json_object\"", "\"json_schema\""}},
  });
}

TEST(Completion, RefusesMoreThanItsLimitsAndNamesThem) {
  std::string bias = "\"0\":1", stops = "\"a\"";
  for (size_t i = 1; i <= kMostBiases; ++i) bias += fmt::format(",\"{}\":1", i);
  for (size_t i = 1; i <= kMostStops; ++i) stops += ",\"a\"";
  expect_refused({
      {fmt::format(",\"logit_bias\":{{{}}}", bias), "logit_bias", {"1025", "at most 1024"}},
      {fmt::format(",\"stop\":[{}]", stops), "stop", {"17", "at most 16"}},
  });
}

TEST(Completion, RefusesFieldsThatItDoesNotKnowWhereThatIsAsked) {
  expect_refused({
      {R"(,"temprature":0.5)", "temprature", {"\"temprature\"", "leave it out"}},
      {R"(,"messages":[])", "messages", {"\"messages\"", "leave it out"}},
  });
}

TEST(Completion, IgnoresFieldsThatItDoesNotKnowAndNamesThem) {
  EXPECT_EQ(ignored(""), Names());
  EXPECT_EQ(ignored(R"(,"temprature":0.5,"x":null,"messages":[])"),
            (Names{"temprature", "messages"}));
  EXPECT_EQ(ignored(R"(,"stream":true,"stream_options":{"x":1},"kv":{"type":"q8","y":2},"z":3)"),
            (Names{"stream_options.x", "kv.y", "z"}));
}

TEST(Chat, NamesIgnoredFieldsByTheirPlace) {
  EXPECT_EQ(
      ignored(
          R"(,"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}},
              {"type":"text","text":"b","cache_control":{}}]}],
              "response_format":{"type":"json_schema","schema":{},"json_schema":{"schema":{},"x":1}})",
          true),
      (Names{"response_format.json_schema.x", "response_format.schema",
             "messages[0].content[0].cache_control"}));
  EXPECT_EQ(ignored(R"(,"tools":[{"type":"function","function":{"name":"g","strict":true}}],
              "tool_choice":{"type":"function","x":1,"function":{"name":"g","y":2}})",
                    true),
            (Names{"tool_choice.x", "tool_choice.function.y"}));
}

// vLLM's router and the SGLang gateway send these fields with every request.
constexpr const char* kRouterDefaults =
    R"(,"stream":false,"logprobs":false,"no_stop_trim":false,"ignore_eos":false,
    "continue_final_message":false,"skip_special_tokens":true,"separate_reasoning":true,
    "stream_reasoning":true,"return_hidden_states":false,"include_reasoning":true)";

TEST(Chat, TakesWhatRoutersAddWhereItChangesNothing) {
  EXPECT_FALSE(refusal(kRouterDefaults, true).has_value());
  EXPECT_EQ(ignored(kRouterDefaults, true), Names());
  EXPECT_FALSE(refusal(R"(,"echo":false,"no_stop_trim":false,"ignore_eos":false,
      "skip_special_tokens":true,"return_hidden_states":false,"add_special_tokens":true)")
                   .has_value());
  const char* other = R"(,"stream_reasoning":false,"return_hidden_states":true)";
  EXPECT_EQ(ignored(other, true), (Names{"stream_reasoning", "return_hidden_states"}));
  expect_refused({{other, "stream_reasoning", {"leave it out"}}}, true);
}

TEST(Chat, SaysWhatBecomesOfThoughts) {
  const auto thoughts = [](std::string_view more) {
    const auto body =
        parse_json(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", more));
    const auto request = parse_chat(*body);
    EXPECT_TRUE(request.ok()) << more;
    return request->thoughts;
  };
  EXPECT_EQ(thoughts(""), Thoughts::kApart);
  EXPECT_EQ(thoughts(R"(,"reasoning_format":"deepseek")"), Thoughts::kApart);
  EXPECT_EQ(thoughts(R"(,"reasoning_format":"none")"), Thoughts::kInContent);
  EXPECT_EQ(thoughts(R"(,"separate_reasoning":false)"), Thoughts::kInContent);
  EXPECT_EQ(thoughts(R"(,"include_reasoning":false)"), Thoughts::kDropped);
  expect_refused({{R"(,"reasoning_format":"xml")", "reasoning_format", {"xml"}}}, true);
}

TEST(Chat, TurnsThinkingOffWhereTheEffortIsNone) {
  const auto variables = [](std::string_view more) {
    const auto body =
        parse_json(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", more));
    Json all = parse_chat(*body)->variables;
    all.erase("tools");
    return all;
  };
  EXPECT_EQ(variables(R"(,"reasoning_effort":"none")"),
            Json::parse(R"({"reasoning_effort":"none","enable_thinking":false,"thinking":false})"));
  EXPECT_EQ(variables(R"(,"reasoning_effort":"low")"),
            Json::parse(R"({"reasoning_effort":"low"})"));
  EXPECT_EQ(variables(R"(,"reasoning_effort":"none",
      "chat_template_kwargs":{"enable_thinking":true})")["enable_thinking"],
            true);
}

TEST(Completion, DoesNotLetARequestOpenFiles) {
  expect_refused({
      {R"(,"kv":{"type":"static8:/etc/passwd"})", "kv", {"names a file", "--kv-type"}},
      {R"(,"kv":{"type":"auto:file=/etc/passwd"})", "kv", {"names a file", "--kv-type"}},
      {R"(,"kv":{"strategy":"paged:file=/etc/passwd"})", "kv", {"names a file", "--kv"}},
      {R"(,"kv":{"select":"maple:file=/etc/passwd"})", "kv", {"names a file", "--kv-select"}},
      {R"(,"kv":{"strategy":"pagd"})", "kv", {"\"pagd\"", "paged"}},
  });
}

Json messages_of(const char* messages) {
  return parse_chat(object_of("messages", messages)).value().messages;
}

TEST(Chat, GivesTemplatesTheFormThatTheyKnow) {
  EXPECT_EQ(
      messages_of(
          R"([{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])"),
      Json::parse(R"([{"role":"system","content":"a\nb"}])"));
  EXPECT_EQ(
      messages_of(R"([{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":
              {"name":"f","arguments":"{\"x\": 1}"}}]},{"role":"tool","tool_call_id":"1","content":"2"}])"),
      Json::parse(R"([{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":
              {"name":"f","arguments":{"x":1}}}],"content":""},{"role":"tool","tool_call_id":"1","content":"2"}])"));
  EXPECT_EQ(
      messages_of(
          R"([{"role":"assistant","tool_calls":[{"function":{"a":1,"arguments":{},"name":"f","b":2}}]}])"),
      Json::parse(
          R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","a":1,"arguments":{},"b":2}}],"content":""}])"));
}

TEST(Chat, TakesAnAssistantsMessageThatSaysNothing) {
  for (const char* message :
       {R"([{"role":"assistant"}])", R"([{"role":"assistant","content":null}])"})
    EXPECT_EQ(messages_of(message), Json::parse(R"([{"role":"assistant","content":""}])"));
}

TEST(Chat, TakesTheRefusalsOfOtherModels) {
  const Json messages = messages_of(R"([{"role":"assistant","content":null,"refusal":"no"},
      {"role":"assistant","content":[{"type":"refusal","refusal":"never"}]}])");
  EXPECT_EQ(messages[0]["content"], "no");
  EXPECT_EQ(messages[1]["content"], "never");
  expect_refused({{R"(,"messages":[{"role":"user","content":[{"type":"refusal","refusal":"no"}]}])",
                   "messages[0].content[0].type",
                   {"only text"}}},
                 true);
}

TEST(Chat, LeavesOutThePicturesOfToolsAndNamesThem) {
  UnknownFields unknown(false);
  const auto request = parse_chat(Json::parse(R"({"messages":[{"role":"user","content":"x"},
      {"role":"tool","content":[{"type":"image_url","image_url":{"url":"data:"}},
      {"type":"text","text":"a.png"}]}]})"),
                                  unknown);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->messages[1]["content"], "[image left out: this model reads only text]\na.png");
  EXPECT_EQ(unknown.names(), std::vector<std::string>{"messages[1].content[0].image_url"});
}

TEST(Chat, TakesCallsWhoseArgumentsAreNoObjectAsCallsWithoutAny) {
  UnknownFields unknown(false);
  const auto request = parse_chat(Json::parse(R"({"messages":[{"role":"assistant","tool_calls":[
      {"function":{"name":"f","arguments":"{\"x\": 1"}},
      {"function":{"name":"g","arguments":"[1]"}},
      {"function":{"name":"h","arguments":"{\"x\": 2}"}}]}]})"),
                                  unknown);
  ASSERT_TRUE(request.ok()) << request.error().message;
  const Json& calls = request->messages[0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"], Json::parse(R"({"name":"f","arguments":{}})"));
  EXPECT_EQ(calls[1]["function"], Json::parse(R"({"name":"g","arguments":{}})"));
  EXPECT_EQ(calls[2]["function"], Json::parse(R"({"name":"h","arguments":{"x":2}})"));
  EXPECT_EQ(unknown.names(), Names{"messages[0].tool_calls[0].function.arguments"});
}

TEST(Chat, NamesTheMessageThatIsWrong) {
  // If a name is given twice, the last value counts.
  expect_refused(
      {
          {R"(,"messages":[])", "messages", {"at least one message"}},
          {R"(,"messages":[{"role":"user","content":"a"},3])", "messages[1]", {"JSON object"}},
          {R"(,"messages":[{"role":"owner","content":"a"}])",
           "messages[0].role",
           {"\"owner\"", "system", "user", "assistant", "tool"}},
          {R"(,"messages":[{"role":"user"}])", "messages[0].content", {"missing"}},
          {R"(,"messages":[{"role":"user","content":[{"type":"image_url"}]}])",
           "messages[0].content[0].type",
           {"\"image_url\"", "only text"}},
          {R"(,"messages":[{"role":"assistant","tool_calls":[{"function":
              {"name":"f","arguments":"{"}}]}])",
           "messages[0].tool_calls[0]",
           {"arguments", "JSON object"}},
          {R"(,"messages":[{"role":"assistant","tool_calls":[{"function":
              {"name":"f","arguments":[1]}}]}])",
           "messages[0].tool_calls[0]",
           {"arguments", "JSON object"}},
      },
      true);
}

constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},
                 {"type":"function","function":{"name":"g"}}])";

ChatRequest chat(const std::string& fields) {
  auto request = parse_chat(
      Json::parse(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", fields)));
  EXPECT_TRUE(request.ok()) << request.error().message;
  return *std::move(request);
}

TEST(Chat, HasNoLimitOfTokensAndNoToolsByDefault) {
  const ChatRequest request = chat("");
  EXPECT_EQ(request.max_tokens, 0U);
  EXPECT_FALSE(request.tools.offered());
  EXPECT_EQ(request.variables, Json::parse(R"({"tools":null})"));
  EXPECT_EQ(chat(R"(,"max_completion_tokens":5)").max_tokens, 5U);
}

TEST(Chat, ShowsToolsToTheTemplateUnlessNoneMayBeCalled) {
  EXPECT_EQ(chat(kTools).variables["tools"].size(), 2U);
  EXPECT_EQ(chat(kTools).tools.names, (std::vector<std::string>{"f", "g"}));
  const ChatRequest none = chat(std::string(kTools) + R"(,"tool_choice":"none")");
  EXPECT_TRUE(none.variables["tools"].is_null() && !none.tools.offered());
}

TEST(Chat, MakesARequiredCallASchemaOfTheAnswer) {
  EXPECT_TRUE(chat(kTools).response_format.is_null());
  const Json any = chat(std::string(kTools) + R"(,"tool_choice":"required")").response_format;
  EXPECT_EQ(any["json_schema"]["schema"]["anyOf"].size(), 2U);
  const Json one =
      chat(std::string(kTools) + R"(,"tool_choice":{"type":"function","function":{"name":"g"}})")
          .response_format;
  EXPECT_EQ(one["type"], "json_schema");
  EXPECT_EQ(one["json_schema"]["schema"],
            Json::parse(R"({"type":"object","properties":{"name":{"enum":["g"]},
              "arguments":{"type":"object"}},"required":["name","arguments"],
              "additionalProperties":false})"));
}

// Expects that a required call accepts `right` and refuses `wrong` as its arguments, with and
// without a second tool.
void expect_arguments(std::string_view parameters, const std::vector<std::string>& right,
                      const std::vector<std::string>& wrong) {
  for (const char* second : {"", R"(,{"type":"function","function":{"name":"g"}})"}) {
    const ChatRequest request = chat(fmt::format(
        R"(,"tool_choice":"required","tools":[{{"type":"function","function":{{"name":"f","parameters":{}}}}}{}])",
        parameters, second));
    EXPECT_EQ(request.format_field, "tools");
    text::SchemaTexts texts(request.response_format["json_schema"]["schema"].dump());
    const auto call = [](const std::string& arguments) {
      return fmt::format(R"({{"name":"f","arguments":{}}})", arguments);
    };
    for (const std::string& one : right) EXPECT_TRUE(texts.takes(call(one))) << one;
    for (const std::string& one : wrong) EXPECT_FALSE(texts.takes(call(one))) << one;
  }
}

TEST(Chat, FollowsReferencesInTheSchemasOfTools) {
  expect_arguments(
      R"({"type":"object","$defs":{"P":{"type":"object","properties":{"n":{"type":"integer"}},
                       "required":["n"]}},"properties":{"p":{"$ref":"#/$defs/P"},"l":{"type":"array",
                       "items":{"$ref":"#/$defs/P"}}},"required":["p"]})",
      {R"({"p":{"n":1}})", R"({"p":{"n":1},"l":[{"n":2}]})"},
      {R"({"p":{}})", R"({"p":{"n":1},"l":[{}]})"});
  expect_arguments(
      R"({"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false})",
      {"{}", R"({"next":{"next":{}}})"}, {R"({"next":{"name":"f","arguments":{}}})"});
  expect_arguments(
      R"({"type":"object","properties":{"$ref":{"enum":["#/x"]}},"required":["$ref"]})",
      {R"({"$ref":"#/x"})"}, {"{}"});
}

TEST(Chat, TakesOnlyObjectsAsArguments) {
  expect_arguments("{}", {"{}", R"({"a":1})"}, {"3", "[]", "null"});
  expect_arguments(R"({"properties":{"a":{"type":"integer"}}})", {R"({"a":1})"},
                   {"3", R"({"a":"b"})"});
}

TEST(Chat, TakesDefaultsOfWhatIsOff) {
  EXPECT_FALSE(chat(R"(,"logprobs":false,"top_logprobs":0)").logprobs.has_value());
  EXPECT_EQ(completion(R"(,"use_beam_search":false,"length_penalty":1.0)").beams, 0U);
  expect_refused({{R"(,"length_penalty":0.5)", "length_penalty", {"use_beam_search"}}}, true);
}

TEST(Chat, RefusesToolsThatMakeNoSense) {
  expect_refused(
      {
          {R"(,"tools":[{"type":"function"}])", "tools[0]", {"function", "missing"}},
          {R"(,"tool_choice":"auto")", "tool_choice", {"tools"}},
          {std::string(kTools) + R"(,"tool_choice":{"function":{"name":"h"}})",
           "tool_choice",
           {"\"h\"", "tools"}},
          {std::string(kTools) +
               R"(,"tool_choice":"required","response_format":{"type":"json_object"})",
           "response_format",
           {"tool_choice"}},
          {R"(,"top_logprobs":2)", "top_logprobs", {"logprobs: true"}},
      },
      true);
}

}  // namespace
}  // namespace kvick::server
