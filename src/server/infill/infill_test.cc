// What clients of llama-server's /infill send and receive.

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "server/api/static_files.h"
#include "server/infill/infill_format.h"
#include "server/infill/infill_request.h"
#include "server/ollama/model_json.h"
#include "server/openai/plan.h"
#include "server/testing/api.h"
#include "server/testing/requests.h"

namespace kvick::server {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

// A tiny model whose three control tokens are fill-in tokens.
const engine::Engine& coder() {
  static const std::unique_ptr<engine::Engine> kEngine = [] {
    base::ThreadPool pool(1);
    const auto folder = model::write_model(model::tiny_spec(tools::Arch::kLlama), pool, true);
    for (const char* file : {"/tokenizer.json", "/tokenizer_config.json"}) {
      std::string text = read_file(folder + file);
      for (const auto& [from, to] : {std::pair<std::string, std::string>("<|im_start|>", "<PRE>"),
                                     {"<|im_end|>", "<SUF>"},
                                     {"<|endoftext|>", "<MID>"}})
        for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
          text.replace(at, from.size(), to);
      std::ofstream(folder + file) << text;
    }
    auto opened = engine::Engine::open({.model_path = folder, .threads = 1});
    std::filesystem::remove_all(folder);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return std::move(opened).value();
  }();
  return *kEngine;
}

ApiResult<CompletionRequest> parsed(std::string_view fields) {
  UnknownFields unknown(true);
  return parse_infill(*parse_json(fields), unknown);
}

// Returns the prompt that the model reads.
std::string prompt_of(const CompletionRequest& request) {
  const MakeConstraint none = [](const Json&) { return base::fail("none"); };
  const std::function<uint64_t()> random = [] { return 1; };
  const auto plan = plan_completion(request, {coder(), none, random});
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  EXPECT_EQ(plan->jobs.size(), 1U);
  return coder().tokenizer().decode(plan->jobs[0].prompt, true);
}

TEST(Infill, IsACompletionBetweenTwoTexts) {
  const auto request = parsed(
      R"({"input_prefix":"int f() {","input_suffix":"}","prompt":" re","n_predict":7,"stream":true,
      "input_extra":[{"filename":"a.h","text":"int a;"},{"text":"x"}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->max_tokens, 7U);
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(prompt_of(*request),
            "--- a.h ---\n\nint a;\n\n--- snippet ---\n\nx\n\n<PRE>int f() { re<SUF>}<MID>");
  EXPECT_EQ(prompt_of(*parsed(R"({"input_suffix":""})")), "<PRE><SUF><MID>");
  EXPECT_EQ(parsed(R"({"input_suffix":""})")->max_tokens, 0U);
}

TEST(Infill, TakesTheSuffixOfACompletionToo) {
  EXPECT_EQ(prompt_of(completion(R"(,"suffix":"s")")), "<PRE>p<SUF>s<MID>");
  EXPECT_EQ(prompt_of(completion(R"(,"suffix":"")")), "p");
  expect_refused({
      {R"(,"suffix":1)", "suffix", {"string"}},
      {R"(,"suffix":"s","prompt":[1,2])", "suffix", {"text", "tokens"}},
      {R"(,"suffix":"s","echo":true)", "echo", {"suffix", "exclude"}},
  });
}

TEST(Infill, IsACapabilityForOllamasClients) {
  EXPECT_EQ(show_json({coder(), "coder", 512, 1000})["capabilities"],
            Json::array({"completion", "insert"}));
}

TEST(Infill, NamesTheFieldThatIsWrong) {
  const auto param = [](std::string_view fields) {
    const auto request = parsed(fields);
    return request.ok() ? "" : request.error().param;
  };
  EXPECT_EQ(param("{}"), "input_prefix");
  EXPECT_EQ(param(R"({"input_prefix":1})"), "input_prefix");
  EXPECT_EQ(param(R"({"input_suffix":[]})"), "input_suffix");
  EXPECT_EQ(param(R"({"input_suffix":"x","prompt":[1]})"), "prompt");
  EXPECT_EQ(param(R"({"input_suffix":"x","n":2})"), "n");
  EXPECT_EQ(param(R"({"input_suffix":"x","input_extra":{}})"), "input_extra");
  EXPECT_EQ(param(R"({"input_suffix":"x","input_extra":[1]})"), "input_extra[0]");
  EXPECT_EQ(param(R"({"input_suffix":"x","input_extra":[{"text":1}]})"), "input_extra[0].text");
  EXPECT_EQ(param(R"({"input_suffix":"x","odd":1})"), "odd");
}

TEST_F(ApiTest, RefusesToFillInWithAModelThatCannot) {
  for (const auto& [path, body, field] :
       {std::tuple("/infill", R"({"input_prefix":"a","input_suffix":"b"})", "input_suffix"),
        std::tuple("/v1/completions", R"({"prompt":"a","suffix":"b"})", "suffix")}) {
    const Seen seen = posted(path, body);
    EXPECT_EQ(seen.response.status, 400U);
    EXPECT_EQ(seen.json()["error"]["param"], field);
    EXPECT_NE(seen.response.body.find("FIM"), std::string::npos);
  }
  EXPECT_TRUE(service_.jobs.empty());
}

TEST_F(ApiTest, AnswersInfillInLlamaServersForm) {
  make({}, coder());
  Seen whole, stream;
  post(whole, "/infill", R"({"input_prefix":"a","input_suffix":"b"})");
  answer(0), end(0);
  EXPECT_EQ(whole.json()["content"], "Hello");
  EXPECT_EQ(whole.json()["stop_type"], "eos");
  EXPECT_EQ(whole.json()["tokens_predicted"], 3);
  EXPECT_EQ(whole.json()["tokens_cached"], 2);
  EXPECT_EQ(whole.json()["model"], "tiny");
  post(stream, "/infill", R"({"input_prefix":"a","input_suffix":"b","stream":true})");
  answer(1), end(1);
  EXPECT_TRUE(stream.streaming && stream.ended);
  EXPECT_NE(stream.events.find(R"("content":"Hel","stop":false)"), std::string::npos);
  EXPECT_NE(stream.events.find(R"("content":"","stop":true)"), std::string::npos);
  EXPECT_EQ(stream.events.find("DONE"), std::string::npos);
}

TEST_F(ApiTest, ReadsThePromptOfAnInfillThatAsksForNoText) {
  make({}, coder());
  Seen whole, stream;
  post(whole, "/infill", R"({"input_prefix":"a","input_suffix":"b","n_predict":0})");
  ASSERT_EQ(service_.jobs.size(), 1U) << whole.response.body;
  EXPECT_EQ(service_.jobs[0].max_tokens, 1U);
  answer(0), end(0);
  EXPECT_EQ(whole.json()["content"], "");
  EXPECT_EQ(whole.json()["stop_type"], "limit");
  EXPECT_EQ(whole.json()["tokens_predicted"], 0);
  EXPECT_EQ(whole.json()["tokens_evaluated"], 5);
  post(stream, "/infill", R"({"input_prefix":"a","input_suffix":"b","n_predict":0,"stream":true})");
  answer(1), end(1);
  EXPECT_TRUE(stream.ended);
  EXPECT_EQ(stream.events.find("Hel"), std::string::npos) << stream.events;
}

TEST_F(ApiTest, KnowsTheFieldsOfInfillThatItsOpenApiDocumentNames) {
  make([](ApiOptions& options) { options.strict_fields = true; }, coder());
  const Json document = Json::parse(openapi_json());
  for (const auto& [field, type] :
       document["components"]["schemas"]["InfillRequest"]["properties"].items()) {
    Json body = {{"input_prefix", "a"}, {"input_suffix", "b"}};
    body[field] = Json::object({{"\x01", 1}});
    const Seen seen = posted("/infill", to_text(body).c_str());
    if (seen.answers == 0) continue;
    EXPECT_EQ(seen.response.body.find(fmt::format("\\\"{}\\\" is no field", field)),
              std::string::npos)
        << seen.response.body;
  }
}

ApiResult<CompletionRequest> parsed_completion(std::string_view fields) {
  UnknownFields unknown(true);
  return parse_llama_completion(*parse_json(fields), unknown);
}

TEST(LlamaCompletion, ContinuesOneText) {
  const auto request = parsed_completion(R"({"prompt":"ab","n_predict":7,"stream":true})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->max_tokens, 7U);
  EXPECT_TRUE(request->stream);
  EXPECT_FALSE(request->suffix.has_value());
  EXPECT_EQ(prompt_of(*request), "ab");
  EXPECT_EQ(parsed_completion(R"({"prompt":[3,4]})")->prompts,
            (std::vector<Prompt>{std::vector<engine::Token>{3, 4}}));
  EXPECT_EQ(parsed_completion(R"({"prompt":"ab"})")->max_tokens, 0U);
  EXPECT_EQ(parsed_completion(R"({"prompt":"ab","n_predict":0})")->max_tokens, 1U);
  const auto param = [](std::string_view fields) {
    const auto wrong = parsed_completion(fields);
    return wrong.ok() ? "" : wrong.error().param;
  };
  EXPECT_EQ(param("{}"), "prompt");
  EXPECT_EQ(param(R"({"prompt":["a","b"]})"), "prompt");
  EXPECT_EQ(param(R"({"prompt":"a","n":2})"), "n");
  EXPECT_EQ(param(R"({"prompt":"a","odd":1})"), "odd");
}

TEST_F(ApiTest, AnswersCompletionInLlamaServersForm) {
  Seen whole, stream, textless;
  post(whole, "/completion", R"({"prompt":"a"})");
  ASSERT_EQ(service_.jobs.size(), 1U) << whole.response.body;
  answer(0), end(0);
  EXPECT_EQ(whole.json()["content"], "Hello");
  EXPECT_EQ(whole.json()["stop"], true);
  EXPECT_EQ(whole.json()["tokens_predicted"], 3);
  post(stream, "/completion", R"({"prompt":"a","stream":true})");
  answer(1), end(1);
  EXPECT_TRUE(stream.ended);
  EXPECT_NE(stream.events.find(R"("content":"Hel","stop":false)"), std::string::npos);
  EXPECT_NE(stream.events.find(R"("content":"","stop":true)"), std::string::npos);
  post(textless, "/completion", R"({"prompt":"a","n_predict":0})");
  answer(2), end(2);
  EXPECT_EQ(textless.json()["content"], "");
  EXPECT_EQ(textless.json()["stop_type"], "limit");
  service_.refuse_from = service_.jobs.size();
  service_.refusal = {engine::Refusal::Why::kTooLong, "too long", "prompt"};
  EXPECT_EQ(posted("/completion", R"({"prompt":"a"})").json()["error"]["param"], "prompt");
}

TEST_F(ApiTest, KnowsTheFieldsOfCompletionThatItsOpenApiDocumentNames) {
  make([](ApiOptions& options) { options.strict_fields = true; });
  const Json document = Json::parse(openapi_json());
  for (const auto& [field, type] :
       document["components"]["schemas"]["LlamaCompletionRequest"]["properties"].items()) {
    Json body = {{"prompt", "a"}};
    body[field] = Json::object({{"\x01", 1}});
    const Seen seen = posted("/completion", to_text(body).c_str());
    if (seen.answers == 0) continue;
    EXPECT_EQ(seen.response.body.find(fmt::format("\\\"{}\\\" is no field", field)),
              std::string::npos)
        << seen.response.body;
  }
}

TEST_F(ApiTest, ReportsTheTokensOfACompletionAsLlamaServerDoes) {
  const auto write = [&](const engine::Job& job) {
    job.on_piece({.text = "", .token = 5, .tokens = {{.chosen = {5, -1}, .top = {{5, -1}}}}});
    job.on_piece({.text = "Hi",
                  .token = 6,
                  .tokens = {{.chosen = {6, -2}, .top = {{7, -1.5F}}}},
                  .finish = engine::Finish::kLength});
    job.on_end({});
  };
  Seen whole, stream, plain, alias;
  post(whole, "/completion", R"({"prompt":"a","n_probs":1,"return_tokens":true})");
  ASSERT_EQ(service_.jobs.size(), 1U) << whole.response.body;
  EXPECT_EQ(service_.jobs[0].logprobs, 1U);
  write(service_.jobs[0]);
  const Json answer = whole.json();
  EXPECT_EQ(answer["tokens"], Json::parse("[5,6]"));
  const Json& tokens = answer["completion_probabilities"];
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0]["id"], 5);
  EXPECT_EQ(tokens[1]["logprob"], -2.0);
  EXPECT_EQ(tokens[1]["token"], test_engine().tokenizer().piece(6, true));
  EXPECT_EQ(tokens[1]["top_logprobs"][0]["id"], 7);
  EXPECT_EQ(tokens[1]["top_logprobs"][0]["logprob"], -1.5);
  // A stream has the tokens of each event, whether or not they complete a character.
  post(stream, "/completion", R"({"prompt":"a","n_probs":1,"return_tokens":true,"stream":true})");
  write(service_.jobs.at(1));
  EXPECT_NE(stream.events.find(R"("content":"","stop":false,"tokens":[5],"completion_prob)"),
            std::string::npos)
      << stream.events;
  EXPECT_NE(stream.events.find(R"("content":"Hi","stop":false,"tokens":[6],"completion_prob)"),
            std::string::npos)
      << stream.events;
  post(plain, "/completion", R"({"prompt":"a","n_probs":0,"logprobs":3})");
  EXPECT_FALSE(service_.jobs.at(2).logprobs.has_value());
  service_.jobs[2].on_piece({.text = "Hi", .token = 6, .finish = engine::Finish::kEnd});
  service_.jobs[2].on_end({});
  EXPECT_FALSE(plain.json().contains("tokens"));
  EXPECT_FALSE(plain.json().contains("completion_probabilities"));
  post(alias, "/completion", R"({"prompt":"a","logprobs":3})");
  EXPECT_EQ(service_.jobs.at(3).logprobs, 3U);
  const auto param = [](std::string_view fields) {
    const auto wrong = parsed_completion(fields);
    return wrong.ok() ? "" : wrong.error().param;
  };
  EXPECT_EQ(param(R"({"prompt":"a","n_probs":21})"), "n_probs");
  EXPECT_EQ(param(R"({"prompt":"a","n_probs":1,"use_beam_search":true})"), "n_probs");
  EXPECT_EQ(param(R"({"prompt":"a","return_tokens":true,"use_beam_search":true})"),
            "return_tokens");
}

const AnswerEnd kEnd = {.counts = {.prompt = 5, .cached = 2, .answer = 3}};

TEST(InfillFormat, GivesAWholeAnswerInLlamaServersForm) {
  const auto format = infill_format(test_engine().tokenizer(), false)({.model = "m"});
  const AnswerFormat::Frame frame = format->frame(kEnd);
  EXPECT_EQ(frame.before + frame.behind, "");
  EXPECT_EQ(Json::parse(format->choice({.content = "return", .finish_reason = "length"})),
            Json::parse(R"({"index":0,"content":"return","stop":true,"stop_type":"limit",
            "stopping_word":"","model":"m","tokens_predicted":3,"tokens_evaluated":5,
            "tokens_cached":2,"truncated":false})"));
}

TEST(InfillFormat, GivesAStreamInLlamaServersForm) {
  const auto format = infill_format(test_engine().tokenizer(), false)({.model = "m"});
  std::string events = format->begin(0);
  events += format->piece({.content = "re"});
  events += format->piece({.content = "\n\n"});
  events += format->piece({.finish_reason = "stop", .stop = ";"});
  events += format->end(kEnd);
  EXPECT_EQ(events,
            "data: {\"index\":0,\"content\":\"re\",\"stop\":false}\n\n"
            "data: {\"index\":0,\"content\":\"\\n\\n\",\"stop\":false}\n\n"
            "data: {\"index\":0,\"content\":\"\",\"stop\":true,\"stop_type\":\"word\","
            "\"stopping_word\":\";\",\"model\":\"m\",\"tokens_predicted\":3,"
            "\"tokens_evaluated\":5,\"tokens_cached\":2,\"truncated\":false}\n\n");
}

TEST(InfillFormat, EndsAStreamThatFailsWithItsError) {
  const auto format = infill_format(test_engine().tokenizer(), false)({.model = "m"});
  AnswerEnd end = kEnd;
  end.error = ApiError{.message = "broke"};
  const std::string events = format->end(end);
  EXPECT_NE(events.find("\"message\":\"broke\""), std::string::npos) << events;
  EXPECT_EQ(events.find("tokens_predicted"), std::string::npos);
}

}  // namespace
}  // namespace kvick::server
