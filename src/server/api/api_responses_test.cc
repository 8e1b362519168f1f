// OpenAI's Responses API, from the request to the store.

#include <gtest/gtest.h>

#include "server/api/static_files.h"
#include "server/testing/api.h"

namespace kvick::server {
namespace {

constexpr const char* kPath = "/v1/responses";

class ResponsesApi : public ApiTest {
 protected:
  // Posts the body and answers job 0; returns the response.
  Json made(const char* body) {
    service_.jobs.clear();
    Seen seen;
    post(seen, kPath, body);
    EXPECT_EQ(service_.jobs.size(), 1U) << seen.response.body;
    answer(0), end(0);
    EXPECT_EQ(seen.response.status, 200U);
    return seen.json();
  }
  std::string prompt() const {
    return test_engine().tokenizer().decode(service_.jobs.at(0).prompt, true);
  }
  Seen asked(const char* method, const std::string& path, const char* key = "") {
    Seen seen;
    call(seen, {.method = method, .target = path, .authorization = key});
    return seen;
  }
  static std::string at(const Json& response, const char* more = "") {
    return std::string(kPath) + "/" + response["id"].get<std::string>() + more;
  }
};

TEST_F(ResponsesApi, AnswersAndKeepsTheAnswer) {
  const Json response = made(R"({"input":"Hi","instructions":"Be brief"})");
  EXPECT_EQ(prompt(), "<system>Be brief<user>Hi");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(response["instructions"], "Be brief");
  EXPECT_EQ(response["store"], true);
  EXPECT_EQ(get(at(response)).json(), response);
  const Json items = get(at(response, "/input_items")).json();
  ASSERT_EQ(items["data"].size(), 1U);
  EXPECT_EQ(items["data"][0]["content"][0]["text"], "Hi");
  EXPECT_EQ(get(at(response, "?stream=true")).response.status, 400U);
}

TEST_F(ResponsesApi, CountsTheTokensThatAResponseWouldRead) {
  const Json first = made(R"({"input":"one"})");
  Json body = {{"input", "two"}, {"instructions", "Be brief"}, {"odd", 1}};
  body["previous_response_id"] = first["id"];
  made(to_text(body).c_str());
  const Seen counted = posted("/v1/responses/input_tokens", to_text(body).c_str());
  EXPECT_EQ(counted.json(), Json({{"object", "response.input_tokens"},
                                  {"input_tokens", service_.jobs.at(0).prompt.size()}}));
  EXPECT_EQ(counted.ignored(), "odd");
  EXPECT_EQ(service_.jobs.size(), 1U);
  EXPECT_EQ(posted("/v1/responses/input_tokens", "{}").json()["error"]["param"], "input");
}

TEST_F(ResponsesApi, StreamsNamedEventsWithoutDone) {
  Seen seen;
  post(seen, kPath, R"({"input":"Hi","stream":true})");
  answer(0), end(0);
  EXPECT_TRUE(seen.ended);
  EXPECT_EQ(seen.stream_type, "text/event-stream");
  EXPECT_TRUE(seen.events.starts_with("event: response.created\ndata: {"));
  EXPECT_NE(seen.events.find("event: response.completed\n"), std::string::npos);
  EXPECT_EQ(seen.events.find("[DONE]"), std::string::npos);
  EXPECT_EQ(get("/v1/responses/resp_0000000000000002").json()["status"], "completed");
}

TEST_F(ResponsesApi, GoesOnThoughThePreviousOfThePreviousIsGone) {
  const Json first = made(R"({"input":"one","instructions":"old"})");
  const auto follow = [](const Json& previous, const char* input) {
    return to_text({{"input", input}, {"previous_response_id", previous["id"]}});
  };
  const Json second = made(follow(first, "two").c_str());
  const Seen gone = asked("DELETE", at(first));
  EXPECT_EQ(gone.json(), Json({{"id", first["id"]}, {"object", "response"}, {"deleted", true}}));
  made(follow(second, "three").c_str());
  EXPECT_EQ(prompt(), "<user>one<assistant>Hello<user>two<assistant>Hello<user>three");
  const Seen lost = posted(kPath, follow(first, "four").c_str());
  EXPECT_EQ(lost.response.status, 400U);
  EXPECT_EQ(lost.json()["error"]["code"], "previous_response_not_found");
}

TEST_F(ResponsesApi, SaysThatThereIsNoSuchResponse) {
  for (const char* method : {"GET", "DELETE"}) {
    const Seen seen = asked(method, "/v1/responses/resp_x");
    EXPECT_EQ(seen.response.status, 404U);
    EXPECT_EQ(seen.json()["error"]["code"], "response_not_found");
  }
  EXPECT_EQ(get("/v1/responses/resp_x/input_items").response.status, 404U);
}

TEST_F(ResponsesApi, KeepsNothingThatItIsNotToKeep) {
  const Json response = made(R"({"input":"Hi","store":false})");
  EXPECT_EQ(response["store"], false);
  EXPECT_EQ(get(at(response)).response.status, 404U);
  make([](ApiOptions& options) { options.response_store_bytes = 0; });
  const Json other = made(R"({"input":"Hi"})");
  EXPECT_EQ(other["store"], false);
  EXPECT_EQ(get(at(other)).response.status, 404U);
  EXPECT_EQ(asked("DELETE", at(other)).response.status, 404U);
  const Seen refused = posted(kPath, R"({"input":"Hi","previous_response_id":"resp_1"})");
  EXPECT_EQ(refused.json()["error"]["param"], "previous_response_id");
  EXPECT_NE(refused.response.body.find("keeps no responses"), std::string::npos);
}

TEST_F(ResponsesApi, ShowsAResponseToTheKeyThatMadeItOnly) {
  make([](ApiOptions& options) { options.keys = ApiKeys({"one", "two"}); });
  Seen seen;
  call(seen, {.method = "POST",
              .target = kPath,
              .authorization = "Bearer one",
              .content_type = "application/json",
              .body = R"({"input":"Hi"})"});
  answer(0), end(0);
  const std::string path = at(seen.json());
  EXPECT_EQ(asked("GET", path, "bearer one").response.status, 200U);
  EXPECT_EQ(asked("GET", path, "Bearer two").response.status, 404U);
  EXPECT_EQ(asked("DELETE", path, "Bearer two").response.status, 404U);
  EXPECT_EQ(asked("GET", path).response.status, 401U);
}

TEST_F(ResponsesApi, BlamesTheInput) {
  service_.refuse_from = 0;
  service_.refusal = {engine::Refusal::Why::kTooLong, "too long", "prompt"};
  const Json error = posted(kPath, R"({"input":"Hi"})").json()["error"];
  EXPECT_EQ(error["param"], "input");
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(posted(kPath, R"({"input":"refuse me"})").json()["error"]["param"], "input");
  EXPECT_EQ(posted(kPath, R"({"input":"Hi","model":"other"})").response.status, 404U);
}

TEST_F(ResponsesApi, TakesNoNewOnesWhileTheServerDrains) {
  counters_.draining = true;
  const auto refused =
      api_->refuses({.method = "POST", .target = kPath, .content_type = "application/json"});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503U);
}

TEST_F(ResponsesApi, KnowsTheFieldsThatItsOpenApiDocumentNames) {
  make([](ApiOptions& options) { options.strict_fields = true; });
  const Json schema = Json::parse(openapi_json())["components"]["schemas"]["ResponsesRequest"];
  for (const auto& [field, type] : schema["properties"].items()) {
    Json body = {{"input", "x"}};
    body[field] = Json::object({{"\x01", 1}});
    const Seen seen = posted(kPath, to_text(body).c_str());
    EXPECT_EQ(seen.response.body.find(fmt::format("\\\"{}\\\" is no field", field)),
              std::string::npos)
        << seen.response.body;
  }
}

}  // namespace
}  // namespace kvick::server
