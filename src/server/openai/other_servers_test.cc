// Fields that vLLM, SGLang and llama-server have, by their names.

#include "server/testing/requests.h"

namespace kvick::server {
namespace {

TEST(Completion, ReadsFieldsOfOtherServers) {
  const CompletionRequest request = completion(
      R"(,"stop_token_ids":[3,5],"min_tokens":4,"skip_special_tokens":false,
      "include_stop_str_in_output":true,"cache_prompt":false,"return_token_ids":true)");
  EXPECT_EQ(request.stop_tokens, (std::vector<engine::Token>{3, 5}));
  EXPECT_EQ(request.min_tokens, 4U);
  EXPECT_TRUE(request.special_text && request.with_stop && request.token_ids);
  EXPECT_FALSE(request.reuse);
  const CompletionRequest plain = completion(R"(,"stop_token_ids":[],"min_tokens":0)");
  EXPECT_TRUE(plain.stop_tokens.empty() && plain.reuse);
  EXPECT_FALSE(plain.special_text || plain.with_stop || plain.token_ids);
}

TEST(Completion, TakesTheMostTokensByEachName) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    EXPECT_EQ(completion(fmt::format(",\"{}\":7", name)).max_tokens, 7U);
    EXPECT_EQ(completion(fmt::format(",\"{}\":-1", name)).max_tokens, 0U);
    for (const char* wrong : {"0", "-2", "1.5", "\"7\"", "4294967296"})
      expect_refused({{fmt::format(",\"{}\":{}", name, wrong), name, {name}}});
  }
  EXPECT_EQ(completion(R"(,"max_tokens":7,"n_predict":7)").max_tokens, 7U);
  EXPECT_EQ(completion(R"(,"n_predict":null)").max_tokens, 16U);
  expect_refused({{R"(,"max_tokens":-1,"n_predict":7)", "max_tokens", {"n_predict", "give one"}}});
}

TEST(Completion, TakesSchemasByVllmsNames) {
  const Json wanted =
      Json::parse(R"({"type":"json_schema","json_schema":{"schema":{"type":"object"}}})");
  for (const char* fields :
       {R"(,"guided_json":{"type":"object"})", R"(,"guided_json":"{\"type\":\"object\"}")",
        R"(,"structured_outputs":{"json":{"type":"object"}})",
        R"(,"structured_outputs":{"json":"{\"type\":\"object\"}"})"})
    EXPECT_EQ(completion(fields).response_format, wanted) << fields;
  EXPECT_EQ(completion(R"(,"structured_outputs":{"json_object":true})").response_format,
            Json::parse(R"({"type":"json_object"})"));
  EXPECT_TRUE(
      completion(R"(,"structured_outputs":{"json_object":false})").response_format.is_null());
  EXPECT_EQ(ignored(R"(,"structured_outputs":{"regex":"a"})"), (Names{"structured_outputs.regex"}));
}

TEST(Completion, NamesAFieldOfAnotherServerThatIsWrong) {
  std::string tokens = "1";
  for (size_t i = 1; i <= kMostStopTokens; ++i) tokens += ",1";
  const std::string beams = R"(,"use_beam_search":true,)";
  expect_refused({
      {R"(,"stop_token_ids":3)", "stop_token_ids", {"list of token ids"}},
      {R"(,"stop_token_ids":["a"])", "stop_token_ids", {"no token id"}},
      {R"(,"stop_token_ids":[-1])", "stop_token_ids", {"no token id"}},
      {fmt::format(",\"stop_token_ids\":[{}]", tokens), "stop_token_ids", {"257", "at most 256"}},
      {R"(,"min_tokens":-1)", "min_tokens", {"from 0"}},
      {R"(,"min_tokens":9,"max_tokens":8)", "min_tokens", {"9", "max_tokens", "8"}},
      {R"(,"skip_special_tokens":1)", "skip_special_tokens", {"true or false"}},
      {R"(,"include_stop_str_in_output":"x")", "include_stop_str_in_output", {"true or false"}},
      {R"(,"return_token_ids":1)", "return_token_ids", {"true or false"}},
      {R"(,"cache_prompt":"no")", "cache_prompt", {"true or false"}},
      {R"(,"guided_json":1)", "guided_json", {"JSON schema"}},
      {R"(,"guided_json":"{")", "guided_json", {"cannot be read"}},
      {R"(,"structured_outputs":[])", "structured_outputs", {"object"}},
      {R"(,"structured_outputs":{"json":[]})", "structured_outputs.json", {"JSON schema"}},
      {R"(,"guided_json":{},"response_format":{"type":"json_object"})",
       "guided_json",
       {"response_format", "exclude"}},
      {R"(,"guided_json":{},"structured_outputs":{"json":{}})",
       "structured_outputs.json",
       {"guided_json", "exclude"}},
      {beams + R"("min_tokens":1)", "min_tokens", {"use_beam_search"}},
      {beams + R"("stop_token_ids":[1])", "stop_token_ids", {"use_beam_search"}},
      {beams + R"("return_token_ids":true)", "return_token_ids", {"use_beam_search"}},
  });
}

TEST(Chat, EndsItsPromptAsHuggingFaceDoes) {
  using engine::ChatEnd;
  const auto end = [](const char* fields) {
    const auto body =
        parse_json(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", fields));
    return parse_chat(*body).value().end;
  };
  EXPECT_EQ(end(""), ChatEnd::kNewTurn);
  EXPECT_EQ(end(R"(,"add_generation_prompt":false)"), ChatEnd::kTurn);
  EXPECT_EQ(end(R"(,"continue_final_message":true)"), ChatEnd::kLastMessage);
  EXPECT_EQ(end(R"(,"continue_final_message":true,"add_generation_prompt":false)"),
            ChatEnd::kLastMessage);
  expect_refused({{R"(,"continue_final_message":true,"add_generation_prompt":true)",
                   "continue_final_message",
                   {"add_generation_prompt", "exclude"}},
                  {R"(,"continue_final_message":1)", "continue_final_message", {"true or false"}},
                  {R"(,"add_generation_prompt":1)", "add_generation_prompt", {"true or false"}}},
                 true);
}

}  // namespace
}  // namespace kvick::server
