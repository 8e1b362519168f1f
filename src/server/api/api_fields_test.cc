// Unknown fields and model names, and what routers request.

#include <gtest/gtest.h>

#include "server/testing/api.h"

namespace kvick::server {
namespace {

constexpr const char* kPath = "/v1/completions";
constexpr const char* kOdd = R"({"prompt":"x","odd":1,"kv":{"strange":2}})";

TEST_F(ApiTest, NamesTheFieldsThatItIgnoresInTheAnswer) {
  Seen whole;
  post(whole, kPath, kOdd);
  answer(0), end(0);
  EXPECT_EQ(whole.response.status, 200U);
  EXPECT_EQ(whole.ignored(), "kv.strange, odd");
  Seen stream;
  post(stream, kPath, R"({"prompt":"x","odd":1,"stream":true})");
  EXPECT_TRUE(stream.streaming);
  EXPECT_EQ(stream.ignored(), "odd");
  Seen plain;
  post(plain, kPath, R"({"prompt":"x"})");
  answer(2), end(2);
  EXPECT_EQ(plain.ignored(), "");
}

TEST_F(ApiTest, NamesTheFieldsThatItIgnoresInErrors) {
  service_.refuse_from = 0;
  service_.refusal = {engine::Refusal::Why::kBusy, "full", ""};
  const Seen busy = posted(kPath, kOdd);
  EXPECT_EQ(busy.response.status, 503U);
  EXPECT_EQ(busy.ignored(), "kv.strange, odd");
  EXPECT_EQ(busy.response.headers.size(), 2U);  // in addition to Retry-After
  EXPECT_EQ(posted(kPath, R"({"prompt":"","odd":1})").ignored(), "odd");
}

TEST_F(ApiTest, NamesTheFieldsThatItIgnoresWhereItCountsTokens) {
  const Seen tokens = posted("/tokenize", R"({"prompt":"x","odd":1,"return_token_ids":false})");
  EXPECT_EQ(tokens.response.status, 200U);
  EXPECT_EQ(tokens.ignored(), "odd");
  EXPECT_EQ(posted("/detokenize", R"({"tokens":[1],"even":1})").ignored(), "even");
}

TEST_F(ApiTest, TokenizesByLlamaServersNamesToo) {
  const auto tokens = [this](const char* body) {
    return posted("/tokenize", body).json()["tokens"];
  };
  const text::Tokenizer& tokenizer = test_engine().tokenizer();
  EXPECT_EQ(tokens(R"({"content":"<|im_start|>a"})"),
            tokenizer.encode("<|im_start|>a", false, true));
  EXPECT_EQ(tokens(R"({"content":"<|im_start|>a","parse_special":false})"),
            tokenizer.encode("<|im_start|>a", false, false));
  EXPECT_EQ(tokens(R"({"content":"a","add_special":true})"), tokenizer.encode("a", true, true));
  std::string text;
  bool in_parts = false;
  for (const Json& token : tokens(R"({"content":"a\u65e5","with_pieces":true})")) {
    const auto id = token["id"].get<engine::Token>();
    const std::string piece = tokenizer.piece(id, true);
    if (token["piece"].is_string()) {
      EXPECT_EQ(token["piece"], piece);
      text += piece;
    } else {
      in_parts = true;
      for (const Json& byte : token["piece"]) text += static_cast<char>(byte.get<int>());
    }
  }
  EXPECT_EQ(text, "a\xE6\x97\xA5");
  EXPECT_TRUE(in_parts);
  const Json body = {{"tokens", tokenizer.encode("Hello", false, true)}};
  const Json back = posted("/detokenize", to_text(body).c_str()).json();
  EXPECT_EQ(back["content"], "Hello");
  EXPECT_EQ(back["prompt"], "Hello");
  EXPECT_EQ(posted("/tokenize", R"({"content":1})").json()["error"]["param"], "content");
}

TEST_F(ApiTest, LogsEachIgnoredFieldOnce) {
  posted(kPath, kOdd);
  posted(kPath, kOdd);
  posted("/tokenize", R"({"prompt":"x","odd":1})");
  ASSERT_EQ(reports_.size(), 2U);
  EXPECT_NE(reports_[0].find("the unknown field kv.strange"), std::string::npos);
  EXPECT_NE(reports_[1].find("the unknown field odd"), std::string::npos);
}

TEST_F(ApiTest, RefusesUnknownFieldsWhereItIsStrict) {
  make([](ApiOptions& options) { options.strict_fields = true; });
  for (const char* path : {"/v1/completions", "/tokenize"}) {
    const Seen seen = posted(path, R"({"prompt":"x","odd":1})");
    EXPECT_EQ(seen.response.status, 400U);
    EXPECT_EQ(seen.json()["error"]["param"], "odd");
    EXPECT_EQ(seen.ignored(), "");
  }
  EXPECT_TRUE(service_.jobs.empty() && reports_.empty());
}

TEST_F(ApiTest, KeepsCheckingTheFieldsThatItKnows) {
  EXPECT_EQ(posted(kPath, R"({"prompt":"x","odd":1,"n":"2"})").json()["error"]["param"], "n");
  EXPECT_EQ(posted(kPath, R"({"prompt":"x","separate_reasoning":1})").response.status, 200U);
  EXPECT_EQ(posted(kPath, R"({"prompt":"x","ignore_eos":1})").response.status, 400U);
}

// The SGLang gateway sends "unknown" if a request names no model.
TEST_F(ApiTest, TakesRequestsThatNameNoModelOrAGatewaysPlaceholder) {
  for (const char* body :
       {R"({"prompt":"x"})", R"({"prompt":"x","model":""})", R"({"prompt":"x","model":"unknown"})"})
    EXPECT_EQ(posted(kPath, body).answers, 0) << body;
  EXPECT_EQ(service_.jobs.size(), 3U);
  EXPECT_EQ(get("/v1/models/unknown").response.status, 404U);
}

TEST_F(ApiTest, TakesAnyModelsNameWhereThatIsAsked) {
  constexpr const char* kOther = R"({"prompt":"x","model":"gpt-4o"})";
  EXPECT_EQ(posted(kPath, kOther).response.status, 404U);
  make([](ApiOptions& options) { options.any_model = true; });
  Seen seen;
  post(seen, kPath, kOther);
  answer(0), end(0);
  EXPECT_EQ(seen.json()["model"], "tiny");
  EXPECT_EQ(get("/v1/models/gpt-4o").response.status, 404U);
}

TEST_F(ApiTest, TellsRoutersWhatItServes) {
  for (const char* path : {"/server_info", "/get_server_info"}) {
    const Json info = get(path).json();
    EXPECT_EQ(info["served_model_name"], "tiny");
    EXPECT_EQ(info["model_path"], "tiny");
    EXPECT_EQ(info["dp_size"], 1);
    EXPECT_EQ(info["context_length"], 512);
    EXPECT_TRUE(info["version"].is_string());
  }
  for (const char* path : {"/model_info", "/get_model_info"}) {
    const Json info = get(path).json();
    EXPECT_EQ(info["model_path"], "tiny");
    EXPECT_EQ(info["is_generation"], true);
    EXPECT_EQ(info["model_type"], "llama");
  }
}

TEST_F(ApiTest, TellsRoutersItsLoadInTheirForm) {
  service_.counts = {.waiting = 2, .running = 3, .preempted = 1, .job_tokens = 70};
  EXPECT_EQ(get("/get_load").json(),
            Json::parse(R"([{"dp_rank":0,"num_reqs":6,"num_waiting_reqs":3,"num_tokens":70}])"));
  make([](ApiOptions& options) { options.load_form = LoadForm::kVllm; });
  EXPECT_EQ(get("/get_load").json(), Json::parse(R"({"load":6})"));
}

TEST_F(ApiTest, FlushesItsCacheByBothNames) {
  for (const char* path : {"/flush_cache", "/reset_prefix_cache"}) {
    Seen seen;
    call(seen, {.method = "POST", .target = path});  // routers send neither a body nor its type
    EXPECT_EQ(seen.json(), Json::parse(R"({"success":true})"));
    EXPECT_EQ(get(path).response.status, 405U);
  }
  EXPECT_EQ(service_.flushes, 2);
}

TEST_F(ApiTest, TakesNoNewRequestsWhileItDrains) {
  const HttpRequest chat = {
      .method = "POST", .target = "/v1/chat/completions", .content_type = "application/json"};
  EXPECT_EQ(get("/health").response.status, 200U);
  EXPECT_FALSE(api_->refuses(chat).has_value());
  counters_.draining = true;
  const Seen health = get("/health");
  EXPECT_EQ(health.response.status, 503U);
  EXPECT_EQ(health.json()["error"]["code"], "draining");
  const auto refused = api_->refuses(chat);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503U);
  EXPECT_EQ(refused->headers.front().first, "Retry-After");
  EXPECT_EQ(get("/metrics").response.status, 200U);
}

TEST_F(ApiTest, ReadsAChoiceFromHeadersAsFromTheBody) {
  const auto with = [&](Headers headers, const char* body = R"({"prompt":"x"})") {
    Seen seen;
    call(seen, {.method = "POST",
                .target = kPath,
                .content_type = "application/json",
                .body = body,
                .choices = std::move(headers)});
    return seen;
  };
  make([](ApiOptions& options) { options.limits.any_kv = true; });
  with({{"x-kvick-kv", "bmc:r=64"},
        {"x-kvick-kv-type", "q8"},
        {"x-kvick-kv-select", "quest:budget=64"},
        {"x-kvick-spec", "lookup:most=5"},
        {"x-kvick-cache-salt", "s"},
        {"x-kvick-priority", "-2"}});
  ASSERT_EQ(service_.jobs.size(), 1U);
  const engine::Job& job = service_.jobs[0];
  EXPECT_EQ(kv::spec_text(job.kv->spec), "bmc:r=64");
  EXPECT_EQ(engine::kv_type_text(*job.kv), "q8");
  EXPECT_EQ(job.kv->select.name, "quest");
  EXPECT_EQ(job.spec->way, "lookup");
  EXPECT_EQ(job.salt, "s");
  EXPECT_EQ(job.priority, -2);
  with({{"x-kvick-kv-type", "q8"}}, R"({"prompt":"x","kv":{"strategy":"paged"}})");
  ASSERT_EQ(service_.jobs.size(), 2U);
  EXPECT_EQ(service_.jobs[1].kv->spec.name, "paged");
  EXPECT_EQ(engine::kv_type_text(*service_.jobs[1].kv), "q8");

  const auto param = [](const Seen& seen) { return seen.json()["error"]["param"]; };
  EXPECT_EQ(param(with({{"x-kvick-kv", "no-such"}})), "kv");
  EXPECT_EQ(param(with({{"x-kvick-kv", "bmc:file=/etc/passwd"}})), "kv");
  EXPECT_EQ(param(with({{"x-kvick-priority", "1"}})), "priority");
  EXPECT_EQ(param(with({{"x-kvick-priority", "high"}})), "x-kvick-priority");
  EXPECT_EQ(param(with({{"x-kvick-spec", "off"}}, R"({"prompt":"x","spec":"auto"})")),
            "x-kvick-spec");
  EXPECT_EQ(service_.jobs.size(), 2U);
  EXPECT_EQ(with({{"x-kvick-new", "1"}}, R"({"prompt":"","odd":1})").ignored(), "x-kvick-new, odd");
  make([](ApiOptions& options) { options.strict_fields = true; });
  EXPECT_EQ(param(with({{"x-kvick-new", "1"}})), "x-kvick-new");
}

TEST_F(ApiTest, ForbidsBadWordsByTheirTokens) {
  posted(kPath, R"({"prompt":"x","bad_words":["Hello"]})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  const auto& words = service_.jobs[0].sampling.bad_words;
  ASSERT_FALSE(words.empty());
  EXPECT_EQ(words[0], test_engine().tokenizer().encode("Hello", false, false));
  const Seen held =
      posted(kPath, R"({"prompt":"x","bad_words":["a"],"response_format":{"type":"json_object"}})");
  EXPECT_EQ(held.json()["error"]["param"], "bad_words");
}

TEST_F(ApiTest, AnswersWithTokenIdsWhereTheyAreAsked) {
  const auto pieces = [&] {
    const engine::Job& job = service_.jobs.back();
    job.on_piece({.text = "", .token = 5});
    job.on_piece({.text = "Hi", .token = 6});
    job.on_piece({.text = "", .token = {}, .finish = engine::Finish::kEnd});
    job.on_end({});
  };
  Seen chat;
  post(chat, "/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"Hi"}],"return_token_ids":true})");
  pieces();
  EXPECT_EQ(chat.json()["choices"][0]["token_ids"], Json::parse("[5,6]"));
  EXPECT_EQ(chat.json()["prompt_token_ids"], service_.jobs.back().prompt);
  Seen text;
  post(text, kPath, R"({"prompt":[1,2],"return_token_ids":true})");
  pieces();
  EXPECT_EQ(text.json()["choices"][0]["token_ids"], Json::parse("[5,6]"));
  EXPECT_EQ(text.json()["choices"][0]["prompt_token_ids"], Json::parse("[1,2]"));
  Seen stream;
  post(stream, kPath, R"({"prompt":[1,2],"return_token_ids":true,"stream":true})");
  pieces();
  EXPECT_NE(stream.events.find(R"("prompt_token_ids":[1,2])"), std::string::npos);
  EXPECT_NE(stream.events.find(R"("token_ids":[5])"), std::string::npos);
  EXPECT_NE(stream.events.find(R"("token_ids":[6])"), std::string::npos);
  Seen plain;
  post(plain, kPath, R"({"prompt":[1,2]})");
  pieces();
  EXPECT_EQ(plain.response.body.find("token_ids"), std::string::npos);
}

TEST_F(ApiTest, GoesOnWithTheLastMessage) {
  constexpr const char* kPart =
      R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"He"}],
      "continue_final_message":true})";
  Seen seen;
  post(seen, "/v1/chat/completions", kPart);
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_EQ(test_engine().tokenizer().decode(service_.jobs[0].prompt, false),
            "<user>Hi<assistant>He");
  EXPECT_TRUE(service_.jobs[0].continues);
  EXPECT_EQ(posted("/tokenize", kPart).json()["tokens"], service_.jobs[0].prompt);
}

TEST_F(ApiTest, CountsTheToolsOfAConversationAsAChatDoes) {
  constexpr const char* kWithTools = R"({"messages":[{"role":"user","content":"Hi"}],
      "tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto",
      "parallel_tool_calls":false,"reasoning_effort":"low","chat_template_kwargs":{"a":1}})";
  Seen seen;
  post(seen, "/v1/chat/completions", kWithTools);
  ASSERT_EQ(service_.jobs.size(), 1U);
  const Seen tokens = posted("/tokenize", kWithTools);
  EXPECT_EQ(tokens.json()["tokens"], service_.jobs[0].prompt);
  EXPECT_EQ(tokens.ignored(), "");
  const Seen wrong =
      posted("/tokenize", R"({"messages":[{"role":"user","content":"Hi"}],"tools":1})");
  EXPECT_EQ(wrong.json()["error"]["param"], "tools");
}

// Agents send both: the schema is that of the last answer, and tools are called before.
TEST_F(ApiTest, LetsTheModelCallToolsBesideASchemaInEachApi) {
  Json format;
  make([&](ApiOptions& options) {
    options.constraint = [&](const Json& given) {
      format = given;
      return base::Result<std::shared_ptr<const text::Constraint>>(
          std::shared_ptr<const text::Constraint>(std::make_shared<AnyText>()));
    };
  });
  for (const auto& [path, body] :
       {std::pair("/v1/responses",
                  R"({"input":"Hi","tools":[{"type":"function","name":"f","parameters":{}}],
                  "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}})"),
        std::pair("/v1/messages",
                  R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}],
                  "tools":[{"name":"f","input_schema":{}}],
                  "output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}})"),
        std::pair("/api/chat",
                  R"({"messages":[{"role":"user","content":"Hi"}],"format":{"type":"object"},
                  "tools":[{"type":"function","function":{"name":"f"}}]})"),
        std::pair("/v1/chat/completions",
                  R"({"messages":[{"role":"user","content":"Hi"}],
                  "tools":[{"type":"function","function":{"name":"f"}}],"response_format":
                  {"type":"json_schema","json_schema":{"schema":{"type":"object"}}}})")}) {
    format = nullptr;
    Seen seen;
    post(seen, path, body);
    ASSERT_FALSE(format.is_null()) << path << ": " << seen.response.body;
    const Json either = format["json_schema"]["schema"]["anyOf"];
    ASSERT_EQ(either.size(), 2U) << path;
    EXPECT_EQ(either[0], Json::parse(R"({"type":"object"})")) << path;
    EXPECT_EQ(either[1]["properties"]["name"]["enum"], Json::array({"f"})) << path;
  }
  Seen call, last;
  constexpr const char* kBody = R"({"messages":[{"role":"user","content":"Hi"}],
      "tools":[{"type":"function","function":{"name":"f"}}],"response_format":
      {"type":"json_schema","json_schema":{"schema":{"type":"object"}}}})";
  const auto answered = [&](Seen& seen, const char* text) {
    post(seen, "/v1/chat/completions", kBody);
    const size_t job = service_.jobs.size() - 1;
    service_.jobs.at(job).on_piece({.text = text, .finish = engine::Finish::kEnd});
    end(job);
    return seen.json()["choices"][0];
  };
  const Json called = answered(call, R"({"name":"f","arguments":{"x":1}})");
  EXPECT_EQ(called["finish_reason"], "tool_calls");
  EXPECT_EQ(called["message"]["tool_calls"][0]["function"],
            Json::parse(R"({"name":"f","arguments":"{\"x\":1}"})"));
  const Json said = answered(last, R"({"name":"Ada","n":1})");
  EXPECT_EQ(said["finish_reason"], "stop");
  EXPECT_EQ(said["message"]["content"], R"({"name":"Ada","n":1})");
}

TEST_F(ApiTest, AsksRoutersForTheKeyToo) {
  make([](ApiOptions& options) { options.keys = ApiKeys({"k"}); });
  for (const char* path : {"/server_info", "/model_info", "/get_load", "/v1/loads"})
    EXPECT_EQ(get(path).response.status, 401U) << path;
}

TEST_F(ApiTest, EndsLoopsWhereTheRequestOrTheOperatorAsksForIt) {
  const auto stops = [this](const char* body) {
    posted(kPath, body);
    return service_.jobs.back().stop_loops;
  };
  constexpr const char* kPlain = R"({"prompt":"x"})";
  EXPECT_FALSE(stops(kPlain));
  EXPECT_TRUE(stops(R"({"prompt":"x","stop_loops":true})"));
  make([](ApiOptions& options) { options.stop_loops = true; });
  EXPECT_TRUE(stops(kPlain));
  EXPECT_FALSE(stops(R"({"prompt":"x","stop_loops":false})"));
}

TEST_F(ApiTest, SaysThatAnAnswerEndedBecauseItRepeatsItself) {
  for (const auto& [path, body] :
       {std::pair(kPath, R"({"prompt":"x"})"), std::pair("/v1/chat/completions", kHello)}) {
    Seen seen;
    post(seen, path, body);
    const size_t job = service_.jobs.size() - 1;
    service_.jobs.at(job).on_piece({.text = "a a a", .finish = engine::Finish::kLoop});
    end(job);
    const Json choice = seen.json()["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["kvick_finish"], "loop");
  }
  Seen plain;
  post(plain, kPath, R"({"prompt":"x"})");
  const size_t job = service_.jobs.size() - 1;
  answer(job), end(job);
  EXPECT_FALSE(plain.json()["choices"][0].contains("kvick_finish"));
}

TEST_F(ApiTest, StreamsTheOffsetOfATokenBehindOneWhoseTextIsHeldBack) {
  const engine::Token a = test_engine().tokenizer().encode("a", false, false).at(0);
  const engine::TokenReport report = {.chosen = {a, -0.5F}, .top = {}};
  Seen seen;
  post(seen, "/v1/completions", R"({"prompt":"x","logprobs":0,"stream":true,"stop":"ab"})");
  service_.jobs[0].on_piece({.text = "", .tokens = {report}, .finish = {}});
  service_.jobs[0].on_piece({.text = "aa", .tokens = {report}, .finish = engine::Finish::kLength});
  end(0);
  Json offsets = Json::array();
  std::string line;
  for (std::istringstream in(seen.events); std::getline(in, line);)
    if (line.starts_with("data: {"))
      offsets.push_back(Json::parse(line.substr(6))["choices"][0]["logprobs"]["text_offset"]);
  EXPECT_EQ(offsets, Json::parse("[[0],[1]]"));
}

}  // namespace
}  // namespace kvick::server
