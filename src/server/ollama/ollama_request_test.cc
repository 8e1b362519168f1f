// Ollama's request bodies, parsed for the engine.

#include "server/ollama/ollama_request.h"

#include <gtest/gtest.h>

#include "make_model/families.h"

#include "server/ollama/model_json.h"
#include "server/testing/service.h"

namespace kvick::server {
namespace {

using Names = std::vector<std::string>;
constexpr uint32_t kContext = 512;

struct Parsed {
  ApiResult<OllamaRequest> request;
  Names ignored;
};

Parsed parse(std::string_view text, bool generates, bool strict = false) {
  const auto body = parse_json(text);
  EXPECT_TRUE(body.ok()) << text;
  UnknownFields unknown(strict);
  auto request = generates ? parse_ollama_generate(*body, kContext, unknown)
                           : parse_ollama_chat(*body, kContext, unknown);
  return {std::move(request), unknown.names()};
}

OllamaRequest taken(std::string_view text, bool generates = false) {
  Parsed parsed = parse(text, generates);
  EXPECT_TRUE(parsed.request.ok()) << parsed.request.error().message;
  return *std::move(parsed.request);
}

std::string with_options(std::string_view options) {
  return fmt::format(R"({{"model":"tiny","prompt":"x","options":{{{}}}}})", options);
}

TEST(OllamaRequest, HasOllamasDefaults) {
  const OllamaRequest request = taken(R"({"prompt":"x"})", true);
  EXPECT_TRUE(request.chat.stream);
  EXPECT_EQ(request.chat.max_tokens, 0U);
  EXPECT_FALSE(request.chat.seed.has_value());
  EXPECT_FLOAT_EQ(request.chat.sampling.temperature, 0.8F);
  EXPECT_EQ(request.chat.sampling.top_k, 40U);
  EXPECT_FLOAT_EQ(request.chat.sampling.top_p, 0.9F);
  EXPECT_FLOAT_EQ(request.chat.sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(request.chat.sampling.penalty_window, 64U);
}

TEST(OllamaRequest, TakesOptionsByOllamasNames) {
  const OllamaRequest request = taken(
      with_options(R"("temperature":0,"top_p":0.5,"top_k":0,"min_p":0.1,"seed":7,"num_predict":9,
                      "stop":["a","b"],"repeat_penalty":1.5,"presence_penalty":1,
                      "frequency_penalty":-1,"repeat_last_n":-1)"),
      true);
  EXPECT_EQ(request.chat.model, "tiny");
  EXPECT_EQ(request.chat.sampling.temperature, 0);
  EXPECT_FLOAT_EQ(request.chat.sampling.top_p, 0.5F);
  EXPECT_EQ(request.chat.sampling.top_k, 0U);
  EXPECT_FLOAT_EQ(request.chat.sampling.min_p, 0.1F);
  EXPECT_EQ(request.chat.seed, 7U);
  EXPECT_EQ(request.chat.max_tokens, 9U);
  EXPECT_EQ(request.chat.stop, (Names{"a", "b"}));
  EXPECT_FLOAT_EQ(request.chat.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request.chat.sampling.presence_penalty, 1);
  EXPECT_EQ(request.chat.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.chat.sampling.penalty_window, UINT32_MAX);
  for (const char* endless : {"-1", "-2", "0"})
    EXPECT_EQ(taken(with_options(fmt::format("\"num_predict\":{}", endless)), true).chat.max_tokens,
              0U);
}

TEST(OllamaRequest, NamesOptionsThatItDoesNotHaveUnlessTheyAskForNothing) {
  EXPECT_EQ(
      parse(with_options(R"("num_ctx":512,"mirostat":0,"tfs_z":1.0,"num_gpu":null)"), true).ignored,
      Names{});
  EXPECT_EQ(parse(with_options(R"("num_ctx":4096,"mirostat":2,"num_gpu":1)"), true).ignored,
            (Names{"options.num_ctx", "options.mirostat", "options.num_gpu"}));
  const Parsed strict = parse(with_options(R"("mirostat":2)"), true, true);
  ASSERT_FALSE(strict.request.ok());
  EXPECT_EQ(strict.request.error().param, "options.mirostat");
}

TEST(OllamaRequest, ReadsWhatOnlyKvickHas) {
  const OllamaRequest request =
      taken(R"({"prompt":"x","cache_salt":"s","priority":-1,"kv":{"type":"q8"}})", true);
  EXPECT_EQ(request.chat.salt, "s");
  EXPECT_EQ(request.chat.priority, -1);
  EXPECT_TRUE(request.chat.kv.has_value());
}

TEST(OllamaRequest, TakesAFormatAsAResponseFormat) {
  EXPECT_TRUE(taken(R"({"prompt":"x","format":""})", true).chat.response_format.is_null());
  EXPECT_EQ(taken(R"({"prompt":"x","format":"json"})", true).chat.response_format,
            Json::parse(R"({"type":"json_object"})"));
  EXPECT_EQ(taken(R"({"prompt":"x","format":{"type":"object"}})", true).chat.response_format,
            Json::parse(R"({"type":"json_schema","json_schema":{"schema":{"type":"object"}}})"));
}

TEST(OllamaRequest, TellsTheTemplateWhetherToThink) {
  const OllamaRequest hard = taken(R"({"prompt":"x","think":"high"})", true);
  EXPECT_EQ(hard.thinks, true);
  EXPECT_EQ(hard.chat.variables["reasoning_effort"], "high");
  EXPECT_EQ(hard.chat.variables["enable_thinking"], true);
  EXPECT_EQ(taken(R"({"prompt":"x","think":"max"})", true).chat.variables["reasoning_effort"],
            "max");
  const OllamaRequest never = taken(R"({"prompt":"x","think":false})", true);
  EXPECT_EQ(never.chat.variables["enable_thinking"], false);
  EXPECT_EQ(never.chat.thoughts, Thoughts::kDropped);
  EXPECT_FALSE(taken(R"({"prompt":"x"})", true).chat.variables.contains("enable_thinking"));
}

TEST(OllamaRequest, JoinsResultsWithTheCallsOfTheirTools) {
  const Json messages = taken(R"({"messages":[{"role":"user","content":"?"},
      {"role":"assistant","thinking":"hm","tool_calls":[
        {"function":{"index":0,"name":"f","arguments":{"x":1}}},
        {"function":{"name":"g","arguments":{}}}]},
      {"role":"tool","tool_name":"g","content":"two"},{"role":"tool","name":"f","content":"one"},
      {"role":"assistant","tool_calls":[{"id":"mine","function":{"name":"f","arguments":{}}}]},
      {"role":"tool","content":"three"}]})")
                            .chat.messages;
  ASSERT_EQ(messages.size(), 6U);
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[1]["tool_calls"][0],
            Json::parse(R"({"function":{"name":"f","arguments":{"x":1}},"type":"function",
                            "id":"call00000"})"));
  EXPECT_EQ(messages[2]["name"], "g");
  EXPECT_EQ(messages[2]["tool_call_id"], "call00001");
  EXPECT_EQ(messages[3]["tool_call_id"], "call00000");
  EXPECT_EQ(messages[5]["tool_call_id"], "mine");
}

TEST(OllamaRequest, JoinsEachCallWithOneResultThoughOnlySomeNameTheirTool) {
  const Json messages = taken(R"({"messages":[
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}},
        {"function":{"name":"g","arguments":{}}},{"function":{"name":"f","arguments":{}}}]},
      {"role":"tool","tool_name":"f","content":"one"},
      {"role":"tool","tool_call_id":null,"content":"two"},
      {"role":"tool","tool_name":"f","content":"three"},
      {"role":"tool","content":"of no call"}]})")
                            .chat.messages;
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[1]["tool_call_id"], "call00000");
  EXPECT_EQ(messages[2]["tool_call_id"], "call00001");
  EXPECT_EQ(messages[3]["tool_call_id"], "call00002");
  EXPECT_FALSE(messages[4].contains("tool_call_id"));
}

TEST(OllamaRequest, TakesMessagesWithoutContent) {
  const Json messages = taken(R"({"messages":[{"role":"system"},{"role":"user","content":null},
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},
      {"role":"tool","tool_name":"f"}]})")
                            .chat.messages;
  ASSERT_EQ(messages.size(), 4U);
  for (const Json& message : messages) EXPECT_EQ(message["content"], "") << message;
}

TEST(OllamaRequest, MakesMessagesOfAPromptAndASystem) {
  EXPECT_EQ(taken(R"({"prompt":"x","system":"be brief"})", true).chat.messages,
            Json::parse(R"([{"role":"system","content":"be brief"},
                            {"role":"user","content":"x"}])"));
}

TEST(OllamaRequest, AsksForNothingWithoutAMessageOrAPrompt) {
  EXPECT_FALSE(taken(R"({"model":"tiny"})").asks);
  EXPECT_FALSE(taken(R"({"model":"tiny","messages":[]})").asks);
  EXPECT_FALSE(taken(R"({"model":"tiny","prompt":""})", true).asks);
  EXPECT_FALSE(taken(R"({"model":"tiny","keep_alive":"5m"})", true).unloads);
  EXPECT_TRUE(taken(R"({"model":"tiny","keep_alive":0})", true).unloads);
}

struct Refused {
  bool generates;
  const char* fields;
  const char* param;
  const char* says;
};

TEST(OllamaRequest, SaysInOneSentenceWhatIsWrong) {
  const std::vector<Refused> table = {
      {true, R"("options":3)", "options", "must be a JSON object"},
      {true, R"("options":{"temperature":"hot"})", "options.temperature", "a number from 0 to 100"},
      {true, R"("options":{"top_p":0})", "options.top_p", "above 0"},
      {true, R"("options":{"stop":[""]})", "options.stop", "none of them empty"},
      {true, R"("options":{"num_predict":-3})", "options.num_predict", "from -2"},
      {true, R"("format":"xml")", "format", "a JSON schema"},
      {true, R"("think":"much")", "think", "\"low\""},
      {true, R"("suffix":"}","system":"s")", "system", "suffix"},
      {true, R"("template":"{{ .Prompt }}")", "template", "raw: true"},
      {true, R"("context":[1])", "context", "/api/chat"},
      {true, R"("images":["aGk="])", "images", "only text"},
      {true, R"("raw":true,"system":"s")", "system", "raw"},
      {true, R"("stream":"yes")", "stream", "true or false"},
      {false, R"("messages":"Hi")", "messages", "must be a list"},
      {false, R"("messages":[3])", "messages[0]", "must be a JSON object"},
      {false, R"("messages":[{"role":"user","content":"x","images":["aGk="]}])",
       "messages[0].images", "only text"},
      {false, R"("messages":[{"role":"robot","content":"x"}])", "messages[0].role", "one of"},
      {false, R"("messages":[{"role":"user","content":"x"}],"tools":[{"type":"f"}])",
       "tools[0].type", "function"},
  };
  for (const Refused& one : table) {
    SCOPED_TRACE(one.fields);
    const Parsed parsed =
        parse(fmt::format("{{{}{}}}", one.generates ? "\"prompt\":\"p\"," : "", one.fields),
              one.generates);
    ASSERT_FALSE(parsed.request.ok());
    EXPECT_EQ(parsed.request.error().status, 400U);
    EXPECT_EQ(parsed.request.error().param, one.param);
    EXPECT_NE(parsed.request.error().message.find(one.says), std::string::npos)
        << parsed.request.error().message;
  }
}

// Requests of Open WebUI, with its advanced parameters, for the question and the chat's title.
TEST(OllamaRequest, TakesWhatOpenWebUiSends) {
  const Parsed parsed = parse(R"({"model":"tiny:latest","stream":true,
      "messages":[{"role":"system","content":"You help."},{"role":"user","content":"Hi"}],
      "options":{"temperature":0.7,"num_ctx":512,"num_predict":128,"stop":["###"],"top_k":20,
                 "repeat_last_n":64,"tfs_z":1,"mirostat":0},
      "keep_alive":"5m","think":false})",
                              false);
  ASSERT_TRUE(parsed.request.ok()) << parsed.request.error().message;
  EXPECT_EQ(parsed.ignored, Names{});
  EXPECT_EQ(parsed.request->chat.messages.size(), 2U);
  EXPECT_TRUE(same_model(parsed.request->chat.model, "tiny"));
}

// Requests of Continue: a chat, and code to continue.
TEST(OllamaRequest, TakesWhatContinueSends) {
  const Parsed chat = parse(R"({"model":"tiny","stream":true,"keep_alive":1800,
      "messages":[{"role":"user","content":"Explain."}],
      "options":{"num_predict":4096,"num_ctx":512,"stop":["<|im_end|>"],"temperature":0.5}})",
                            false);
  ASSERT_TRUE(chat.request.ok()) << chat.request.error().message;
  EXPECT_EQ(chat.ignored, Names{});
  const Parsed code = parse(R"({"model":"tiny","prompt":"def f(","raw":true,"stream":true,
      "keep_alive":1800,"options":{"num_predict":256,"temperature":0.01,"stop":["\n\n"]}})",
                            true);
  ASSERT_TRUE(code.request.ok()) << code.request.error().message;
  EXPECT_EQ(code.ignored, Names{});
  EXPECT_TRUE(code.request->raw);
}

TEST(OllamaModel, GoesByItsNameWithItsTagOrWithout) {
  EXPECT_EQ(tagged_name("tiny"), "tiny:latest");
  EXPECT_EQ(tagged_name("tiny:1b"), "tiny:1b");
  EXPECT_EQ(tagged_name("hf:owner/tiny"), "hf:owner/tiny:latest");
  EXPECT_TRUE(same_model("tiny:latest", "tiny"));
  EXPECT_TRUE(same_model("tiny", "tiny:latest"));
  EXPECT_FALSE(same_model("tiny:1b", "tiny"));
}

TEST(OllamaModel, IsShownWithItsNumbers) {
  const OllamaModel model = {test_engine(), "tiny", kContext, 1000};
  const Json show = show_json(model);
  EXPECT_EQ(show["model_info"]["general.architecture"], "llama");
  EXPECT_EQ(show["model_info"]["llama.context_length"], test_engine().model().config().context);
  EXPECT_EQ(show["model_info"]["llama.block_count"], test_engine().model().config().layer_count());
  EXPECT_GT(show["model_info"]["general.parameter_count"].get<uint64_t>(), 0U);
  EXPECT_EQ(show["details"]["format"], "safetensors");
  EXPECT_EQ(show["parameters"], "num_ctx 512");
  EXPECT_EQ(show["capabilities"], Json::array({"completion"}));
  EXPECT_EQ(show["template"], test_engine().tokenizer().vocabulary().chat_template);
  EXPECT_EQ(show["modified_at"], "1970-01-01T00:16:40Z");
  EXPECT_EQ(tag_json(model)["digest"], test_engine().identity().weights);
}

TEST(OllamaModel, OfAnEncoderIsForEmbeddingsOnly) {
  tools::Spec spec = *tools::made_family("bert");
  spec.layers = 1;
  const auto encoder = engine::engine_of(spec);
  EXPECT_EQ(show_json({*encoder, "bert", kContext, 1000})["capabilities"],
            Json::array({"embedding"}));
}

}  // namespace
}  // namespace kvick::server
