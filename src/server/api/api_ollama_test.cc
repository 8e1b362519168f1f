// Ollama's routes: whole answers, answers in lines, and errors.

#include <gtest/gtest.h>
#include <sstream>

#include "server/api/static_files.h"
#include "server/testing/api.h"

namespace kvick::server {
namespace {

constexpr const char* kWhole =
    R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}],"stream":false})";
constexpr const char* kTools = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,
    "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]})";

std::vector<Json> lines_of(const Seen& seen) {
  EXPECT_EQ(seen.stream_type, "application/x-ndjson");
  std::vector<Json> lines;
  std::string line;
  for (std::istringstream in(seen.events); std::getline(in, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

TEST_F(ApiTest, AnswersOllamasChatWhole) {
  Seen seen;
  post(seen, "/api/chat", kWhole);
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_EQ(test_engine().tokenizer().decode(service_.jobs[0].prompt, true), "<user>Hi");
  seconds_ = 0.5;
  answer(0);
  seconds_ = 2;
  end(0);
  EXPECT_EQ(seen.json(), Json::parse(R"({"model":"tiny","created_at":"1970-01-01T00:16:40Z",
      "message":{"role":"assistant","content":"Hello"},"done_reason":"stop","done":true,
      "total_duration":2000000000,"load_duration":0,"prompt_eval_count":5,
      "prompt_eval_duration":500000000,"eval_count":3,"eval_duration":1500000000})"));
}

TEST_F(ApiTest, StreamsOllamasChatByDefaultInLines) {
  Seen seen;
  post(seen, "/api/chat", kHello);
  answer(0);
  end(0);
  EXPECT_TRUE(seen.ended);
  const std::vector<Json> lines = lines_of(seen);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], Json::parse(R"({"model":"tiny:latest","created_at":"1970-01-01T00:16:40Z",
      "message":{"role":"assistant","content":"Hel"},"done":false})"));
  EXPECT_EQ(lines[1]["message"]["content"], "lo");
  EXPECT_EQ(lines[2]["message"]["content"], "");
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["eval_count"], 3);
}

TEST_F(ApiTest, GivesOllamaThoughtsAndCallsApartFromTheText) {
  Seen seen;
  post(seen, "/api/chat", kTools);
  const engine::Job& job = service_.jobs.at(0);
  job.on_piece({.text = "<think>hm</think>So:"});
  job.on_piece({.text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>",
                .finish = engine::Finish::kEnd});
  end(0);
  std::string thinking, content;
  Json calls = Json::array();
  const std::vector<Json> lines = lines_of(seen);
  for (const Json& line : lines) {
    const Json& message = line["message"];
    thinking += message.value("thinking", "");
    content += message.value("content", "");
    if (message.contains("tool_calls"))
      for (const Json& call : message["tool_calls"]) calls.push_back(call);
  }
  EXPECT_EQ(thinking, "hm");
  EXPECT_EQ(content, "So:");
  EXPECT_EQ(calls, Json::parse(R"([{"function":{"name":"f","arguments":{"x":1}}}])"));
  EXPECT_EQ(lines.back()["done_reason"], "stop");
}

TEST_F(ApiTest, LeavesOutACallForOllamaThatWasCutOff) {
  Seen seen;
  post(seen, "/api/chat", kTools);
  service_.jobs.at(0).on_piece({.text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"x",
                                .finish = engine::Finish::kLength});
  end(0);
  const std::vector<Json> lines = lines_of(seen);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_FALSE(lines[0]["message"].contains("tool_calls"));
  EXPECT_EQ(lines[0]["done_reason"], "length");
}

TEST_F(ApiTest, GeneratesForOllamaByTheTemplateOrRaw) {
  Seen chat, raw;
  post(chat, "/api/generate", R"({"prompt":"Hi","system":"s","stream":false})");
  post(raw, "/api/generate", R"({"prompt":"Hi","raw":true,"stream":false})");
  ASSERT_EQ(service_.jobs.size(), 2U);
  const text::Tokenizer& tokenizer = test_engine().tokenizer();
  EXPECT_EQ(tokenizer.decode(service_.jobs[0].prompt, true), "<system>s<user>Hi");
  EXPECT_EQ(tokenizer.decode(service_.jobs[1].prompt, true), "Hi");
  for (const size_t job : {0, 1}) answer(job), end(job);
  for (const Seen* seen : {&chat, &raw}) {
    EXPECT_EQ(seen->json()["response"], "Hello");
    EXPECT_EQ(seen->json()["done_reason"], "stop");
    EXPECT_FALSE(seen->json().contains("message"));
  }
}

TEST_F(ApiTest, RefusesADoubleSlashInTheFormOfThePathsApi) {
  const Seen ollama = posted("//api/chat", kWhole), anthropic = posted("//v1/messages", "{}");
  EXPECT_EQ(ollama.response.status, 404U);
  EXPECT_NE(ollama.json()["error"].get<std::string>().find("but at \"/api/chat\""),
            std::string::npos);
  EXPECT_EQ(anthropic.json()["error"]["type"], "not_found_error");
}

TEST_F(ApiTest, ReportsTheTokensOfAnAnswerAsOllamaDoes) {
  const auto write = [](const engine::Job& job) {
    job.on_piece({.text = "", .token = 5, .tokens = {{.chosen = {5, -1}, .top = {{5, -1}}}}});
    job.on_piece({.text = "Hi",
                  .token = 6,
                  .tokens = {{.chosen = {6, -2}, .top = {{7, -1.5F}}}},
                  .finish = engine::Finish::kLength});
    job.on_end({});
  };
  Seen whole, stream, chosen, plain;
  post(whole, "/api/generate",
       R"({"prompt":"a","raw":true,"stream":false,"logprobs":true,"top_logprobs":1})");
  post(stream, "/api/chat", R"({"messages":[{"role":"user","content":"a"}],"logprobs":true,
                               "top_logprobs":1})");
  post(chosen, "/api/chat",
       R"({"messages":[{"role":"user","content":"a"}],"stream":false,"logprobs":true})");
  post(plain, "/api/generate", R"({"prompt":"a","stream":false,"logprobs":false})");
  ASSERT_EQ(service_.jobs.size(), 4U) << whole.response.body;
  EXPECT_EQ(service_.jobs[0].logprobs, 1U);
  EXPECT_EQ(service_.jobs[2].logprobs, 0U);
  EXPECT_FALSE(service_.jobs[3].logprobs.has_value());
  for (size_t job = 0; job < 3; ++job) write(service_.jobs[job]);
  answer(3), end(3);
  EXPECT_EQ(whole.ignored(), "");
  const Json tokens = whole.json()["logprobs"];
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[1]["token"], test_engine().tokenizer().piece(6, true));
  EXPECT_EQ(tokens[1]["logprob"], -2.0);
  EXPECT_EQ(tokens[1]["bytes"].size(), test_engine().tokenizer().piece(6, true).size());
  ASSERT_EQ(tokens[1]["top_logprobs"].size(), 1U);
  EXPECT_EQ(tokens[1]["top_logprobs"][0]["token"], test_engine().tokenizer().piece(7, true));
  EXPECT_EQ(tokens[1]["top_logprobs"][0]["logprob"], -1.5);
  // A stream has the tokens of each line, whether or not they complete a character.
  const std::vector<Json> lines = lines_of(stream);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["message"]["content"], "");
  EXPECT_EQ(lines[0]["logprobs"], Json::array({tokens[0]}));
  EXPECT_EQ(lines[1]["message"]["content"], "Hi");
  EXPECT_EQ(lines[1]["logprobs"], Json::array({tokens[1]}));
  EXPECT_FALSE(lines[2].contains("logprobs"));
  ASSERT_EQ(chosen.json()["logprobs"].size(), 2U);
  EXPECT_FALSE(chosen.json()["logprobs"][0].contains("top_logprobs"));
  EXPECT_FALSE(plain.json().contains("logprobs"));
  const Seen wrong = posted("/api/generate", R"({"prompt":"a","top_logprobs":2})");
  EXPECT_EQ(wrong.json(), Json::parse(R"({"error":"top_logprobs needs logprobs: true"})"));
  EXPECT_EQ(posted("/api/generate", R"({"prompt":"a","logprobs":true,"top_logprobs":21})")
                .response.status,
            400U);
}

TEST_F(ApiTest, HoldsAnAnswerForOllamaToItsFormat) {
  Seen seen;
  post(seen, "/api/generate", R"({"prompt":"Hi","format":"json"})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_NE(service_.jobs[0].constraint, nullptr);
  EXPECT_EQ(posted("/api/generate", R"({"prompt":"Hi","format":{"type":"x"}})").json(),
            Json::parse(R"({"error":"no such schema"})"));
  EXPECT_EQ(constrained_["json_schema"]["schema"], Json::parse(R"({"type":"x"})"));
}

TEST_F(ApiTest, AnswersOllamaWhoAsksForNothingAtOnce) {
  EXPECT_EQ(posted("/api/chat", R"({"model":"tiny","stream":false})").json(),
            Json::parse(R"({"model":"tiny","created_at":"1970-01-01T00:16:40Z",
            "message":{"role":"assistant","content":""},"done":true,"done_reason":"load"})"));
  const Seen stream = posted("/api/generate", R"({"model":"tiny","keep_alive":0})");
  EXPECT_EQ(stream.response.type, "application/x-ndjson");
  EXPECT_TRUE(stream.response.body.ends_with("}\n"));
  EXPECT_EQ(stream.json()["done_reason"], "unload");
  EXPECT_EQ(stream.json()["response"], "");
  EXPECT_TRUE(service_.jobs.empty());
}

TEST_F(ApiTest, TakesTheNamesOfOllamasListsInAllApis) {
  EXPECT_EQ(posted("/v1/completions", R"({"model":"tiny:latest","prompt":"x"})").response.status,
            200U);
  EXPECT_EQ(get("/v1/models/tiny:latest").response.status, 200U);
  EXPECT_EQ(posted("/v1/completions", R"({"model":"tiny:1b","prompt":"x"})").response.status, 404U);
  EXPECT_EQ(get("/v1/models/tiny:1b").response.status, 404U);
}

TEST_F(ApiTest, SaysToOllamaWhatIsWrongInOneSentence) {
  const Seen other = posted("/api/chat", R"({"model":"other:1b","messages":[]})");
  EXPECT_EQ(other.response.status, 404U);
  ASSERT_TRUE(other.json()["error"].is_string());
  EXPECT_NE(other.json()["error"].get<std::string>().find("kvick serve -m"), std::string::npos);
  EXPECT_EQ(posted("/api/chat", R"({"model":"tiny:latest"})").response.status, 200U);
  EXPECT_EQ(posted("/api/chat", "{").response.status, 400U);
  EXPECT_TRUE(posted("/api/generate", "[]").json()["error"].is_string());
  const Seen thinks = posted("/api/generate", R"({"prompt":"x","think":true})");
  EXPECT_EQ(thinks.response.status, 400U);
  EXPECT_NE(thinks.json()["error"].get<std::string>().find("does not support thinking"),
            std::string::npos);
}

// curl -d sends this type without a header; LiteLLM sends none.
TEST_F(ApiTest, TakesOllamasRequestsWhateverTheyAreDeclaredAs) {
  Seen form;
  call(form, {.method = "POST",
              .target = "/api/chat",
              .content_type = "application/x-www-form-urlencoded",
              .body = kHello});
  EXPECT_EQ(service_.jobs.size(), 1U);
  Seen none;
  call(none, {.method = "POST", .target = "/api/embed", .body = R"({"input":"a"})"});
  EXPECT_EQ(service_.jobs.size(), 2U);
}

TEST_F(ApiTest, SaysToOllamaWhyAJobWasNotTakenOrBroke) {
  Seen stream;
  post(stream, "/api/chat", kHello);
  service_.jobs[0].on_end(
      {.error = engine::Refusal{engine::Refusal::Why::kTooLarge, "no room", ""}});
  EXPECT_EQ(lines_of(stream), std::vector<Json>{Json::parse(R"({"error":"no room"})")});
  service_.refuse_from = 1;
  service_.refusal = {engine::Refusal::Why::kBusy, "full", ""};
  const Seen busy = posted("/api/chat", kHello);
  EXPECT_EQ(busy.response.status, 503U);
  EXPECT_EQ(busy.json(), Json::parse(R"({"error":"full"})"));
  EXPECT_FALSE(busy.response.headers.empty());
}

TEST_F(ApiTest, NamesTheFieldsOfOllamaThatItIgnores) {
  Seen seen;
  post(seen, "/api/chat",
       R"({"messages":[{"role":"user","content":"Hi"}],"options":{"mirostat":2},"odd":1})");
  EXPECT_TRUE(seen.streaming);
  EXPECT_EQ(seen.ignored(), "options.mirostat, odd");
}

TEST_F(ApiTest, ListsItsModelAsOllamaDoes) {
  const Json tags = get("/api/tags").json()["models"][0];
  EXPECT_EQ(tags["name"], "tiny:latest");
  EXPECT_EQ(tags["size"], test_engine().file_bytes());
  const Json running = get("/api/ps").json()["models"][0];
  EXPECT_EQ(running["size_vram"], 0);
  EXPECT_EQ(running["context_length"], 512);
  // Codex CLI refuses older ones.
  EXPECT_EQ(get("/api/version").json()["version"], "0.13.4");
  const Json shown = posted("/api/show", R"({"model":"tiny"})").json();
  EXPECT_EQ(shown["details"]["family"], "llama");
  EXPECT_EQ(shown["model_info"]["general.basename"], "tiny");
  EXPECT_EQ(posted("/api/show", R"({"name":"tiny:latest"})").response.status, 200U);
  EXPECT_EQ(posted("/api/show", R"({"model":"other"})").response.status, 404U);
  EXPECT_EQ(posted("/api/show", "{}").response.status, 400U);
}

TEST_F(ApiTest, PullsForOllamaWhatIsHere) {
  EXPECT_EQ(posted("/api/pull", R"({"model":"tiny"})").response.body, "{\"status\":\"success\"}\n");
  EXPECT_EQ(posted("/api/pull", R"({"model":"tiny","stream":false})").json(),
            Json::parse(R"({"status":"success"})"));
  EXPECT_EQ(posted("/api/pull", R"({"model":"other"})").response.status, 404U);
}

// The parser knows every field of the document; it refuses unknown ones.
TEST_F(ApiTest, KnowsTheFieldsThatItsDocumentNamesForOllama) {
  make([](ApiOptions& options) { options.strict_fields = true; });
  const Json schemas = Json::parse(openapi_json())["components"]["schemas"];
  for (const auto& [path, schema] : {std::pair("/api/chat", "OllamaChatRequest"),
                                     std::pair("/api/generate", "OllamaGenerateRequest")})
    for (const auto& [field, type] : schemas[schema]["properties"].items()) {
      Json body = Json::object();
      body[field] = Json::object({{"\x01", 1}});
      const Seen seen = posted(path, to_text(body).c_str());
      EXPECT_EQ(seen.response.body.find(fmt::format("\\\"{}\\\" is no field", field)),
                std::string::npos)
          << seen.response.body;
    }
}

TEST_F(ApiTest, SaysWhatIsWrongWithAHeadInTheFormOfItsApi) {
  const ApiError error = {.message = "too long"};
  const auto body = [&](const char* path) {
    return Json::parse(api_->error_of({.method = "POST", .target = path}, error).body);
  };
  EXPECT_EQ(body("/api/chat")["error"], "too long");
  EXPECT_EQ(body("/v1/messages")["type"], "error");
  EXPECT_EQ(body("/v1/completions")["error"]["message"], "too long");
  EXPECT_EQ(body("/nowhere")["error"]["message"], "too long");
}

TEST_F(ApiTest, SaysInTheFormOfItsApiThatThereIsNoRoute) {
  Seen missing;
  call(missing, {.method = "DELETE", .target = "/api/delete"});
  EXPECT_EQ(missing.response.status, 404U);
  EXPECT_TRUE(missing.json()["error"].is_string()) << missing.response.body;
  EXPECT_EQ(posted("/v1/messages/batches", "{}").json()["type"], "error");
  EXPECT_EQ(get("/v1/files").json()["error"]["code"], "not_found");
  const auto wrong = api_->refuses({.method = "GET", .target = "/api/chat"});
  ASSERT_TRUE(wrong.has_value());
  EXPECT_EQ(wrong->status, 405U);
  EXPECT_TRUE(Json::parse(wrong->body)["error"].is_string()) << wrong->body;
}

}  // namespace
}  // namespace kvick::server
