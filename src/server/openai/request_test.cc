#include <gtest/gtest.h>

#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"

namespace kvick::server {
namespace {

Json object_of(const char* name, const char* value) {
  Json object;
  object[name] = Json::parse(value);
  return object;
}

// Unknown fields are refused, unless a test looks at them.
ApiResult<CompletionRequest> parse_completion(const Json& body) {
  UnknownFields unknown(true);
  return parse_completion(body, unknown);
}
ApiResult<ChatRequest> parse_chat(const Json& body) {
  UnknownFields unknown(true);
  return parse_chat(body, unknown);
}

CompletionRequest completion(std::string_view fields) {
  const auto body = parse_json(fmt::format("{{\"prompt\":\"p\"{}}}", fields));
  EXPECT_TRUE(body.ok());
  auto request = parse_completion(*body);
  EXPECT_TRUE(request.ok()) << request.error().message;
  return *std::move(request);
}

// "PARAM: MESSAGE" of a request with such fields.
std::string refusal(std::string_view fields, bool chat = false) {
  const auto body = parse_json(fmt::format(
      "{{{}{}}}", chat ? R"("messages":[{"role":"user","content":"x"}])" : "\"prompt\":\"p\"",
      fields));
  EXPECT_TRUE(body.ok()) << fields;
  ApiError error;
  if (chat) {
    const auto request = parse_chat(*body);
    if (request.ok()) return "";
    error = request.error();
  } else {
    const auto request = parse_completion(*body);
    if (request.ok()) return "";
    error = request.error();
  }
  EXPECT_EQ(error.status, 400U);
  return error.param + ": " + error.message;
}

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
      "logprobs":2,"seed":-1,"logit_bias":{"5":-100,"7":2.5},"max_tokens":9,"temperature":0.5,
      "top_p":0.25,"top_k":40,"min_p":0.125,"presence_penalty":1,"frequency_penalty":-2,
      "repetition_penalty":1.5,"priority":-3,"cache_salt":"s","kv":{"strategy":"paged:block=16",
      "type":"q8"},"spec":"lookup:most=5","ignore_eos":true,"user":"u","metadata":{},"suffix":null)");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream && request.include_usage && request.ignore_end);
  EXPECT_EQ(request.choices, 3U);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.logprobs, 2U);
  EXPECT_EQ(request.seed, UINT64_MAX);
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

TEST(Completion, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(refusal(R"(,"n":0)"), "n: n must be a whole number from 1 to 64");
  EXPECT_EQ(refusal(R"(,"n":"2")"), "n: n must be a whole number from 1 to 64");
  EXPECT_EQ(refusal(R"(,"n":1.5)"), "n: n must be a whole number from 1 to 64");
  EXPECT_EQ(refusal(R"(,"n":18446744073709551615)"), "n: n must be a whole number from 1 to 64");
  EXPECT_EQ(refusal(R"(,"stream":1)"), "stream: stream must be true or false");
  EXPECT_EQ(refusal(R"(,"temperature":-1)"),
            "temperature: temperature must be a number from 0 to 100");
  EXPECT_EQ(refusal(R"(,"top_p":0)"), "top_p: top_p must be above 0; 1 keeps all tokens");
  EXPECT_EQ(refusal(R"(,"stop":[""])"),
            "stop: stop must be a string or a list of strings, none of them empty");
  EXPECT_EQ(refusal(R"(,"logit_bias":{"x":1})"),
            "logit_bias: logit_bias names \"x\", which is no token id");
  EXPECT_EQ(refusal(R"(,"stream_options":{})"),
            "stream_options: stream_options is only for stream: true");
  EXPECT_EQ(
      refusal(R"(,"stream":true,"stream_options":{"x":1})"),
      "stream_options.x: \"x\" is no field that this server knows in stream_options; leave it out");
  EXPECT_EQ(refusal(R"(,"spec":"none:x=1")"), "spec: none has no option 'x'; it has none");
  EXPECT_EQ(refusal(R"(,"best_of":2)"), "best_of: best_of above n needs use_beam_search: true");
  EXPECT_EQ(refusal(R"(,"max_tokens":1,"max_completion_tokens":2)"),
            "max_tokens: max_tokens and max_completion_tokens differ; give one");
  EXPECT_EQ(refusal(R"(,"response_format":{"type":"xml"})"),
            "response_format.type: response_format.type must be \"text\", \"json_object\" or "
            "\"json_schema\"");
}

TEST(Completion, RefusesMoreThanItsLimits) {
  std::string bias = "\"0\":1", stops = "\"a\"";
  for (size_t i = 1; i <= kMostBiases; ++i) bias += fmt::format(",\"{}\":1", i);
  for (size_t i = 1; i <= kMostStops; ++i) stops += ",\"a\"";
  EXPECT_EQ(refusal(fmt::format(",\"logit_bias\":{{{}}}", bias)),
            "logit_bias: logit_bias has 1025 tokens; at most 1024 are taken");
  EXPECT_EQ(refusal(fmt::format(",\"stop\":[{}]", stops)),
            "stop: stop has 17 strings; at most 16 are taken");
}

TEST(Completion, RefusesFieldsThatItDoesNotKnowWhereThatIsAsked) {
  EXPECT_EQ(refusal(R"(,"temprature":0.5)"),
            "temprature: \"temprature\" is no field that this server knows; leave it out");
  EXPECT_EQ(refusal(R"(,"messages":[])"),
            "messages: \"messages\" is no field that this server knows; leave it out");
}

// The fields that are ignored of a request with such fields.
std::vector<std::string> ignored(std::string_view fields, bool chat = false) {
  const auto body = parse_json(fmt::format(
      "{{{}{}}}", chat ? R"("messages":[{"role":"user","content":"x"}])" : "\"prompt\":\"p\"",
      fields));
  EXPECT_TRUE(body.ok()) << fields;
  UnknownFields unknown(false);
  const bool taken = chat ? parse_chat(*body, unknown).ok() : parse_completion(*body, unknown).ok();
  EXPECT_TRUE(taken) << fields;
  return unknown.names();
}
using Names = std::vector<std::string>;

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

// As vLLM's router and the SGLang gateway send them with every request.
constexpr const char* kRouterDefaults =
    R"(,"stream":false,"logprobs":false,"no_stop_trim":false,"ignore_eos":false,
    "continue_final_message":false,"skip_special_tokens":true,"separate_reasoning":true,
    "stream_reasoning":true,"return_hidden_states":false,"include_reasoning":true)";

TEST(Chat, TakesWhatRoutersAddWhereItChangesNothing) {
  EXPECT_EQ(refusal(kRouterDefaults, true), "");
  EXPECT_EQ(ignored(kRouterDefaults, true), Names());
  EXPECT_EQ(refusal(R"(,"echo":false,"no_stop_trim":false,"ignore_eos":false,
      "skip_special_tokens":true,"return_hidden_states":false,"add_special_tokens":true)"),
            "");
  const char* other = R"(,"skip_special_tokens":false,"continue_final_message":true)";
  EXPECT_EQ(ignored(other, true), (Names{"skip_special_tokens", "continue_final_message"}));
  EXPECT_TRUE(refusal(other, true).starts_with("skip_special_tokens: "));
}

TEST(Completion, DoesNotLetARequestOpenFiles) {
  const std::string refused =
      "kv: kv names a file, which only the server's own --kv, --kv-type and --kv-select can";
  EXPECT_EQ(refusal(R"(,"kv":{"type":"static8:/etc/passwd"})"), refused);
  EXPECT_EQ(refusal(R"(,"kv":{"strategy":"paged:file=/etc/passwd"})"), refused);
  EXPECT_EQ(refusal(R"(,"kv":{"select":"maple:file=/etc/passwd"})"), refused);
  EXPECT_TRUE(refusal(R"(,"kv":{"strategy":"pagd"})").starts_with("kv: unknown cache strategy"));
}

Json messages_of(const char* messages) {
  const auto request = parse_chat(object_of("messages", messages));
  return request.ok() ? request->messages : Json(request.error().message);
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
}

TEST(Chat, NamesTheMessageThatIsWrong) {
  EXPECT_EQ(messages_of("[]"), "messages must be a list of at least one message");
  EXPECT_EQ(messages_of(R"([{"role":"user","content":"a"},3])"),
            "messages[1] must be a JSON object");
  EXPECT_EQ(messages_of(R"([{"role":"owner","content":"a"}])"),
            "messages[0].role is \"owner\"; it must be one of system, user, assistant, tool");
  EXPECT_EQ(messages_of(R"([{"role":"user"}])"), "messages[0].content is missing");
  EXPECT_EQ(messages_of(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
            "messages[0].content[0].type is \"image_url\", but this server takes only text");
  EXPECT_EQ(
      messages_of(
          R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])"),
      "messages[0].tool_calls[0].function.arguments must be a JSON object in a string");
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

TEST(Chat, RefusesToolsThatMakeNoSense) {
  EXPECT_EQ(refusal(R"(,"tools":[{"type":"function"}])", true),
            "tools[0]: tools[0].function is missing");
  EXPECT_EQ(refusal(R"(,"tool_choice":"auto")", true),
            "tool_choice: tool_choice needs tools to choose from");
  EXPECT_EQ(refusal(std::string(kTools) + R"(,"tool_choice":{"function":{"name":"h"}})", true),
            "tool_choice: tool_choice names \"h\", which is not among the tools");
  EXPECT_TRUE(refusal(std::string(kTools) +
                          R"(,"tool_choice":"required","response_format":{"type":"json_object"})",
                      true)
                  .starts_with("response_format: "));
  EXPECT_EQ(refusal(R"(,"top_logprobs":2)", true),
            "top_logprobs: top_logprobs needs logprobs: true");
}

}  // namespace
}  // namespace kvick::server
