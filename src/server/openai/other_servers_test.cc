// Fields of vLLM, SGLang and llama-server, by their names.

#include "server/openai/kv_transfer.h"
#include "server/testing/api.h"
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

TEST(Completion, TakesWhatAnotherServerSaysOfItsRows) {
  for (const char* arithmetic : {"scalar", "avx512_vnni+bf16", "avx2+2 ranks int8",
                                 "avx2+2 stages+neon,scalar", "avx512+library+shift:64,16"}) {
    const auto handover =
        completion(",\"kv_transfer_params\":" + to_text(kv_transfer_json(arithmetic))).handover;
    ASSERT_TRUE(handover.has_value()) << arithmetic;
    EXPECT_EQ(handover->side, engine::Handover::Side::kTake);
    EXPECT_EQ(handover->arithmetic, arithmetic);
  }
  for (const std::string& arithmetic : {std::string("a|b"), std::string("A"), std::string(65, 'a')})
    expect_refused({{",\"kv_transfer_params\":" + to_text(kv_transfer_json(arithmetic)),
                     "kv_transfer_params.kvick_arithmetic",
                     {"copied from the answer"}}});
}

TEST(Completion, TakesASeedOfMinusOneAsNone) {
  EXPECT_EQ(completion(R"(,"seed":-1)").seed, std::nullopt);
  EXPECT_EQ(completion(R"(,"seed":0)").seed, 0U);
}

TEST(Completion, TakesBiasesInPairsAsLlamaServerDoes) {
  using Biases = std::map<engine::Token, float>;
  EXPECT_EQ(completion(R"(,"logit_bias":[[5,-1.5],[7,false]])").sampling.logit_bias,
            (Biases{{5, -1.5F}, {7, -100}}));
  EXPECT_EQ(completion(R"(,"logit_bias":[])").sampling.logit_bias, Biases{});
  expect_refused({
      {R"(,"logit_bias":"a")", "logit_bias", {"object"}},
      {R"(,"logit_bias":[5])", "logit_bias", {"pairs"}},
      {R"(,"logit_bias":[[5]])", "logit_bias", {"pairs"}},
      {R"(,"logit_bias":[["a",1]])", "logit_bias", {"texts are not taken"}},
      {R"(,"logit_bias":[[-1,1]])", "logit_bias", {"pairs"}},
      {R"(,"logit_bias":[[2147483648,1]])", "logit_bias", {"pairs"}},
      {R"(,"logit_bias":[[5,true]])", "logit_bias", {"token 5", "-100 to 100"}},
      {R"(,"logit_bias":[[5,101]])", "logit_bias", {"token 5", "-100 to 100"}},
  });
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

TEST(Completion, ReadsTheSamplersOfLlamaServer) {
  const engine::Sampling s =
      completion(
          R"(,"typical_p":0.5,"top_n_sigma":1.5,"dynatemp_range":0.25,"dynatemp_exponent":2,
      "repeat_penalty":1.5,"repeat_last_n":7,"xtc_probability":0.5,"xtc_threshold":0.25,
      "mirostat":2,"mirostat_tau":4,"mirostat_eta":0.5,"dry_multiplier":0.5,"dry_base":2,
      "dry_allowed_length":3,"dry_penalty_last_n":99,"dry_sequence_breakers":["a","b"])")
          .sampling;
  EXPECT_EQ(s.typical_p, 0.5F);
  EXPECT_EQ(s.top_n_sigma, 1.5F);
  EXPECT_EQ(s.dynatemp_range, 0.25F);
  EXPECT_EQ(s.dynatemp_exponent, 2);
  EXPECT_EQ(s.repetition_penalty, 1.5F);
  EXPECT_EQ(s.penalty_window, 7U);
  EXPECT_EQ(s.xtc.probability, 0.5F);
  EXPECT_EQ(s.xtc.threshold, 0.25F);
  EXPECT_EQ(s.mirostat.version, 2U);
  EXPECT_EQ(s.mirostat.tau, 4);
  EXPECT_EQ(s.mirostat.eta, 0.5F);
  EXPECT_EQ(s.dry.multiplier, 0.5F);
  EXPECT_EQ(s.dry.base, 2);
  EXPECT_EQ(s.dry.allowed_length, 3U);
  EXPECT_EQ(s.dry.window, 99U);
  EXPECT_EQ(s.dry.breakers, (std::vector<std::string>{"a", "b"}));
}

TEST(Completion, HasSamplersOffUnlessTheyAreAskedFor) {
  for (const char* fields :
       {"", R"(,"top_n_sigma":-1,"repeat_last_n":-1,"dry_penalty_last_n":-1,"bad_words":[],
        "repeat_penalty":1,"repetition_penalty":1)"}) {
    const CompletionRequest request = completion(fields);
    const engine::Sampling& s = request.sampling;
    EXPECT_EQ(s.typical_p, 1);
    EXPECT_EQ(s.top_n_sigma + s.dynatemp_range + s.xtc.probability, 0);
    EXPECT_EQ(s.mirostat.version, 0U);
    EXPECT_EQ(s.repetition_penalty, 1);
    EXPECT_EQ(s.penalty_window, UINT32_MAX);
    EXPECT_EQ(s.dry.window, UINT32_MAX);
    EXPECT_FALSE(s.dry.any());
    EXPECT_TRUE(s.dry.breakers.empty() && request.bad_words.empty());
  }
  const auto breakers = [](const char* more) {
    return completion(fmt::format(",\"dry_multiplier\":1{}", more)).sampling.dry.breakers;
  };
  EXPECT_EQ(breakers(""), engine::default_dry_breakers());
  EXPECT_TRUE(breakers(R"(,"dry_sequence_breakers":[])").empty());
}

TEST(Completion, NamesASamplersFieldThatIsWrong) {
  std::string words = "\"a\"";
  for (size_t i = 1; i <= kMostBadWords; ++i) words += ",\"a\"";
  expect_refused({
      {R"(,"typical_p":0)", "typical_p", {"above 0"}},
      {R"(,"top_n_sigma":"x")", "top_n_sigma", {"number from -1"}},
      {R"(,"dynatemp_range":-1)", "dynatemp_range", {"from 0"}},
      {R"(,"dynatemp_exponent":0)", "dynatemp_exponent", {"from 0.01"}},
      {R"(,"repeat_penalty":0)", "repeat_penalty", {"from 0.01"}},
      {R"(,"repeat_penalty":2,"repetition_penalty":1)",
       "repeat_penalty",
       {"repetition_penalty", "give one"}},
      {R"(,"repeat_last_n":-2)", "repeat_last_n", {"from -1"}},
      {R"(,"xtc_probability":2)", "xtc_probability", {"from 0 to 1"}},
      {R"(,"xtc_threshold":-1)", "xtc_threshold", {"from 0 to 1"}},
      {R"(,"mirostat":3)", "mirostat", {"from 0 to 2"}},
      {R"(,"mirostat_tau":-1)", "mirostat_tau", {"from 0 to 100"}},
      {R"(,"mirostat_eta":2)", "mirostat_eta", {"from 0 to 1"}},
      {R"(,"dry_multiplier":-1)", "dry_multiplier", {"from 0 to 100"}},
      {R"(,"dry_base":0.5)", "dry_base", {"from 1 to 100"}},
      {R"(,"dry_allowed_length":0)", "dry_allowed_length", {"from 1"}},
      {R"(,"dry_penalty_last_n":-2)", "dry_penalty_last_n", {"from -1"}},
      {R"(,"dry_sequence_breakers":"a")", "dry_sequence_breakers", {"list of strings"}},
      {R"(,"dry_sequence_breakers":[""])", "dry_sequence_breakers", {"none of them empty"}},
      {R"(,"bad_words":"a")", "bad_words", {"list of strings"}},
      {R"(,"bad_words":[1])", "bad_words", {"list of strings"}},
      {fmt::format(",\"bad_words\":[{}]", words), "bad_words", {"257", "at most 256"}},
      {R"(,"use_beam_search":true,"bad_words":["a"])", "bad_words", {"use_beam_search"}},
  });
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
  EXPECT_EQ(ignored(R"(,"structured_outputs":{"structural_tag":"a"})"),
            (Names{"structured_outputs.structural_tag"}));
}

TEST(Completion, TakesSchemasWhereLlamaServersClientsPutThem) {
  const Json wanted =
      Json::parse(R"({"type":"json_schema","json_schema":{"schema":{"type":"object"}}})");
  for (const char* fields :
       {R"(,"response_format":{"type":"json_object","schema":{"type":"object"}})",
        R"(,"response_format":{"type":"json_schema","schema":{"type":"object"}})",
        R"(,"json_schema":{"type":"object"})"})
    EXPECT_EQ(completion(fields).response_format, wanted) << fields;
  EXPECT_EQ(completion(R"(,"json_schema":{})").format_field, "json_schema");
  EXPECT_EQ(completion(R"(,"response_format":{"type":"json_object","schema":null})")
                .response_format["type"],
            "json_object");
  EXPECT_EQ(ignored(R"(,"response_format":{"type":"json_object","schema":{},"json_schema":{}})"),
            (Names{"response_format.json_schema"}));
  EXPECT_EQ(ignored(R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{}},
                    "schema":{}})"),
            (Names{"response_format.schema"}));
  expect_refused({
      {R"(,"response_format":{"type":"json_object","schema":1})",
       "response_format.schema",
       {"JSON schema"}},
      {R"(,"response_format":{"type":"json_schema"})",
       "response_format.json_schema",
       {"object with a schema"}},
      {R"(,"json_schema":[])", "json_schema", {"JSON schema"}},
      {R"(,"json_schema":{},"grammar":"root ::= [a]")", "grammar", {"json_schema", "exclude"}},
  });
}

TEST(Completion, TakesFormsOfTextByOtherServersNames) {
  const Json regex = {{"type", "regex"}, {"value", "a+"}};
  for (const char* fields :
       {R"(,"guided_regex":"a+")", R"(,"structured_outputs":{"regex":"a+"})", R"(,"regex":"a+")",
        R"(,"response_format":{"type":"regex","value":"a+"})"})
    EXPECT_EQ(completion(fields).response_format, regex) << fields;
  const Json grammar = {{"type", "grammar"}, {"grammar", "root ::= [a]"}};
  for (const char* fields :
       {R"(,"grammar":"root ::= [a]")", R"(,"guided_grammar":"root ::= [a]")",
        R"(,"structured_outputs":{"grammar":"root ::= [a]"})", R"(,"ebnf":"root ::= [a]")",
        R"(,"response_format":{"type":"grammar","grammar":"root ::= [a]"})"})
    EXPECT_EQ(completion(fields).response_format, grammar) << fields;
  const Json choice = {{"type", "choice"}, {"choice", {"a", "b"}}};
  for (const char* fields :
       {R"(,"guided_choice":["a","b"])", R"(,"structured_outputs":{"choice":["a","b"]})"})
    EXPECT_EQ(completion(fields).response_format, choice) << fields;
  EXPECT_EQ(completion(R"(,"guided_regex":"a")").format_field, "guided_regex");
  EXPECT_TRUE(completion(R"(,"grammar":"","guided_regex":null)").response_format.is_null());
}

TEST(Completion, NamesAFormThatIsWrong) {
  expect_refused({
      {R"(,"grammar":1)", "grammar", {"string"}},
      {R"(,"guided_regex":"")", "guided_regex", {"not empty"}},
      {R"(,"guided_grammar":[])", "guided_grammar", {"string"}},
      {R"(,"guided_choice":"a")", "guided_choice", {"list of strings"}},
      {R"(,"guided_choice":[])", "guided_choice", {"at least one"}},
      {R"(,"guided_choice":["a",1])", "guided_choice", {"none of them empty"}},
      {R"(,"structured_outputs":{"choice":[""]})", "structured_outputs.choice", {"empty"}},
      {R"(,"response_format":{"type":"regex"})", "response_format.value", {"string"}},
      {R"(,"response_format":{"type":"grammar","grammar":""})",
       "response_format.grammar",
       {"not empty"}},
      {R"(,"guided_regex":"a","grammar":"root ::= [a]")", "grammar", {"guided_regex", "exclude"}},
      {R"(,"guided_json":{},"guided_choice":["a"])", "guided_choice", {"guided_json", "exclude"}},
  });
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
      {R"(,"allowed_token_ids":3)", "allowed_token_ids", {"list of token ids"}},
      {R"(,"allowed_token_ids":[])", "allowed_token_ids", {"at least one"}},
      {R"(,"allowed_token_ids":[-1])", "allowed_token_ids", {"no token id"}},
      {beams + R"("allowed_token_ids":[1])", "allowed_token_ids", {"use_beam_search"}},
      {R"(,"truncate_prompt_tokens":0)", "truncate_prompt_tokens", {"at least 1", "-1"}},
      {R"(,"truncate_prompt_tokens":2,"suffix":"s")", "truncate_prompt_tokens", {"suffix"}},
      {R"(,"truncation_side":"right")", "truncation_side", {"left"}},
      {R"(,"prompt_logprobs":-1)", "prompt_logprobs", {"from 0 to 20"}},
      {R"(,"prompt_logprobs":1,"stream":true)", "prompt_logprobs", {"echo and logprobs"}},
      {beams + R"("prompt_logprobs":1)", "prompt_logprobs", {"use_beam_search"}},
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

TEST(Chat, GivesTheTemplateVllmsDocuments) {
  const auto body = parse_json(R"({"messages":[{"role":"user","content":"x"}],
      "documents":[{"title":"a","text":"b"}]})");
  EXPECT_EQ(parse_chat(*body).value().variables["documents"],
            Json::parse(R"([{"title":"a","text":"b"}])"));
  expect_refused({{R"(,"documents":"a")", "documents", {"list of objects"}}}, true);
}

TEST(Chat, TakesThoughtsByVllmsNameToo) {
  const auto message = [](const char* fields) {
    const auto body =
        parse_json(fmt::format(R"({{"messages":[{{"role":"assistant"{}}}]}})", fields));
    return parse_chat(*body).value().messages[0];
  };
  EXPECT_EQ(message(R"(,"content":"a","reasoning":"hm")"),
            Json::parse(R"({"role":"assistant","content":"a","reasoning_content":"hm"})"));
  EXPECT_EQ(message(R"(,"content":null,"reasoning":"hm","reasoning_content":null)"),
            Json::parse(R"({"role":"assistant","content":"","reasoning_content":"hm"})"));
  const Json both = message(R"(,"content":"a","reasoning":"x","reasoning_content":"hm")");
  EXPECT_EQ(both["reasoning"], "x");
  EXPECT_EQ(both["reasoning_content"], "hm");
  EXPECT_EQ(message(R"(,"content":"a","reasoning":{"effort":"low"})")["reasoning"]["effort"],
            "low");
  expect_refused(
      {{R"(,"messages":[{"role":"user","reasoning":"hm"}])", "messages[0].content", {"missing"}}},
      true);
}

// Gateways send thoughts of Anthropic's clients so: LiteLLM to servers of vLLM, and Envoy's.
TEST(Chat, TakesThoughtsAmongThePartsOfAnAssistantsContent) {
  const auto messages = [](const std::string& content, const char* role) {
    return fmt::format(R"({{"messages":[{{"role":"{}","content":{}}}]}})", role, content);
  };
  const auto read = [&](const std::string& content) {
    const auto body = parse_json(messages(content, "assistant"));
    UnknownFields unknown(true);
    const auto chat = parse_chat(*body, unknown);
    EXPECT_TRUE(chat.ok()) << content;
    return chat.ok() ? chat->messages[0] : Json();
  };
  EXPECT_EQ(read(R"([{"type":"thinking","thinking":"hm","signature":"s"},
                     {"type":"redacted_thinking","data":"x"},{"type":"thinking","thinking":"so"},
                     {"type":"text","text":"a"},{"type":"text","text":"b"}])"),
            Json::parse(R"({"role":"assistant","content":"a\nb","reasoning_content":"hm\nso"})"));
  EXPECT_EQ(read(R"([{"type":"redacted_thinking","data":"x"},{"type":"text","text":"a"}])"),
            Json::parse(R"({"role":"assistant","content":"a"})"));
  EXPECT_EQ(read(R"([{"type":"thinking","text":"hm","signature":"s"},
                     {"type":"redacted_thinking","redactedContent":"x"},
                     {"type":"text","text":"a"}])"),
            Json::parse(R"({"role":"assistant","content":"a","reasoning_content":"hm"})"));
  const auto own = parse_json(R"({"messages":[{"role":"assistant","reasoning_content":"hm",
      "content":[{"type":"thinking","thinking":"other"}]}]})");
  EXPECT_EQ(parse_chat(*own).value().messages[0],
            Json::parse(R"({"role":"assistant","reasoning_content":"hm","content":""})"));
  const auto user = parse_json(messages(R"([{"type":"thinking","thinking":"hm"}])", "user"));
  ASSERT_FALSE(parse_chat(*user).ok());
  EXPECT_EQ(parse_chat(*user).error().param, "messages[0].content[0].type");
}

TEST(Chat, TurnsThinkingOnOrOffAsApisOfOtherHostsDo) {
  for (const auto& [type, on] :
       {std::pair("enabled", true), std::pair("adaptive", true), std::pair("disabled", false)}) {
    const auto body = parse_json(fmt::format(
        R"({{"messages":[{{"role":"user","content":"x"}}],"thinking":{{"type":"{}"}}}})", type));
    const Json variables = parse_chat(*body).value().variables;
    EXPECT_TRUE(variables["thinking"] == on && variables["enable_thinking"] == on) << type;
  }
  expect_refused({{R"(,"thinking":{"type":"hot"})", "thinking.type", {"disabled"}}}, true);
}

// A template such as DeepSeek-V3's writes no content for a message that has a list of calls.
TEST(Chat, DropsAnEmptyListOfCalls) {
  for (const char* calls : {"[]", "null"}) {
    const auto body = parse_json(fmt::format(
        R"({{"messages":[{{"role":"assistant","content":"a","tool_calls":{}}}]}})", calls));
    const auto request = parse_chat(*body);
    ASSERT_TRUE(request.ok()) << request.error().message;
    EXPECT_EQ(request->messages[0], Json::parse(R"({"role":"assistant","content":"a"})")) << calls;
  }
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

TEST_F(ApiTest, ReadsTheLastTokensOfAPromptThatIsCut) {
  posted("/v1/completions", R"({"prompt":[1,2,3,4],"truncate_prompt_tokens":3})");
  posted("/v1/chat/completions",
         R"({"messages":[{"role":"user","content":"Hi"}],"truncate_prompt_tokens":2})");
  const Json many = {{"prompt", std::vector(600, 1)}, {"truncate_prompt_tokens", -1}};
  posted("/v1/completions", to_text(many).c_str());
  const Seen none =
      posted("/v1/completions", R"({"prompt":[1,2],"truncate_prompt_tokens":-1,"max_tokens":512})");
  EXPECT_EQ(none.json()["error"]["param"], "max_tokens") << none.response.body;
  ASSERT_EQ(service_.jobs.size(), 3U);
  EXPECT_EQ(service_.jobs[2].prompt.size(), 512U - 16);  // the context without max_tokens
  EXPECT_EQ(service_.jobs[0].prompt, (std::vector<engine::Token>{2, 3, 4}));
  const auto whole = posted("/tokenize", kHello).json()["tokens"].get<std::vector<int32_t>>();
  EXPECT_EQ(service_.jobs[1].prompt, (std::vector<engine::Token>{whole.end() - 2, whole.end()}));
}

TEST(Completion, TakesWhatClientsOfLlamaServerAddWhereItChangesNothing) {
  EXPECT_EQ(ignored(R"(,"id_slot":-1,"n_keep":0,"n_probs":0,"detokenize":true)"), Names());
  EXPECT_EQ(ignored(R"(,"id_slot":0,"samplers":["top_k"])"), (Names{"id_slot", "samplers"}));
}

}  // namespace
}  // namespace kvick::server
