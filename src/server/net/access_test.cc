// Access to the server over real sockets: keys, sites, and the limit on all requests.

#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>

#include "server/testing/server.h"

namespace kvick::server {
namespace {

constexpr const char* kBody = R"({"prompt":"x","max_tokens":1})";

// The head of a request whose body the test may send or not.
std::string head(std::string_view first_line, std::string_view headers, size_t bytes = 1'000'000) {
  return fmt::format("{} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n", first_line,
                     headers, bytes);
}

std::string code_of(const Client::Answer& answer) {
  return Json::parse(answer.body)["error"]["code"];
}

TEST(Access, IsRefusedByTheHeadAloneBeforeAnyBodyComes) {
  TestServer server({}, ApiKeys({"secret"}));
  const std::string json = "Content-Type: application/json\r\n";
  const std::string key = "Authorization: Bearer secret\r\n";
  const std::tuple<std::string, std::string, int> cases[] = {
      {"POST /v1/completions", json, 401},
      {"POST /v1/completions", json + "Authorization: Bearer other\r\n", 401},
      {"POST /v1/completions", json + "Expect: 100-continue\r\n", 401},
      {"POST /v1/messages", json + "X-Api-Key: other\r\n", 401},
      {"POST /v1/messages", "X-Api-Key: secret\r\n", 415},
      {"POST /v1/completions", key, 415},
      {"POST /v1/nothing", json + key, 404},
      {"PUT /v1/completions", json + key, 405},
      {"POST /v1/completions", json + key + "Origin: http://evil.org\r\n", 403}};
  for (const auto& [line, headers, status] : cases) {
    Client client = server.client();
    client.send(head(line, headers));
    EXPECT_EQ(client.answer().status, status) << line << " " << headers;
    EXPECT_EQ(client.read_to_end(), "");
  }
  Client chunked = server.client(), admitted = server.client();
  chunked.send("POST /v1/completions HTTP/1.1\r\n" + json + "Transfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(chunked.answer().status, 401);
  admitted.send(head("POST /v1/completions", json + key, std::string_view(kBody).size()));
  admitted.send(kBody);
  EXPECT_EQ(admitted.answer().status, 200);
}

TEST(Access, IsNotGivenToACompressedBody) {
  TestServer server;
  const std::string json = "Content-Type: application/json\r\n";
  for (const auto& [path, coding] : {std::pair("/v1/completions", "gzip"), {"/api/chat", "zstd"}}) {
    Client client = server.client();
    client.send(
        head(fmt::format("POST {}", path), json + fmt::format("Content-Encoding: {}\r\n", coding)));
    const Client::Answer answer = client.answer();
    EXPECT_EQ(answer.status, 415) << path;
    EXPECT_NE(answer.head.find("Accept-Encoding: identity\r\n"), std::string::npos);
    EXPECT_NE(answer.body.find(coding), std::string::npos) << answer.body;
    EXPECT_EQ(client.read_to_end(), "");
  }
  Client plain = server.client();
  plain.post("/v1/completions", kBody, "Content-Encoding: identity\r\n");
  EXPECT_EQ(plain.answer().status, 200);
}

TEST(Access, IsNotGivenToWhoExpectsWhatTheServerDoesNotKnow) {
  TestServer server;
  Client client = server.client();
  client.send(head("POST /v1/completions", "Content-Type: application/json\r\nExpect: cake\r\n"));
  const Client::Answer answer = client.answer();
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 417 Expectation Failed\r\n")) << answer.head;
  EXPECT_NE(answer.body.find("Expect is \\\"cake\\\""), std::string::npos) << answer.body;
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(Access, IsNotGivenToABodyThatLooksLikeARequest) {
  TestServer server({}, ApiKeys({"secret"}));
  Client client = server.client();
  const std::string inner = "GET /health HTTP/1.1\r\n\r\n";
  client.send(head("POST /v1/completions", "", inner.size()) + inner);
  EXPECT_EQ(client.answer().status, 401);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(Access, IsOnlyByNamesOfTheServer) {
  TestServer local, named({.sites = {.hosts = {"llm.org"}, .origins = {}}});
  const auto status = [](const TestServer& server, std::string_view path, std::string_view host) {
    Client client = server.client();
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, host));
    return client.answer().status;
  };
  for (const char* path : {"/", "/health", "/v1/models", "/metrics", "/nothing"})
    EXPECT_EQ(status(local, path, "evil.org"), 403) << path;
  EXPECT_EQ(status(local, "/", fmt::format("localhost:{}", local.port)), 200);
  EXPECT_EQ(status(local, "/", "127.0.0.1"), 200);
  EXPECT_EQ(status(named, "/", "llm.org:80"), 200);
  EXPECT_EQ(status(named, "/", "evil.org"), 403);
  EXPECT_EQ(status(TestServer({.host = "0.0.0.0"}), "/", "any.org"), 200);
}

TEST(Access, IsForPagesOfTheServerItself) {
  TestServer server;
  Client own = server.client(), other = server.client(), form = server.client();
  own.post("/v1/completions", kBody, "Origin: http://localhost\r\n");
  EXPECT_EQ(own.answer().status, 200);
  other.post("/v1/completions", kBody, "Origin: http://evil.org\r\n");
  const Client::Answer refused = other.answer();
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(code_of(refused), "origin_not_allowed");
  EXPECT_EQ(refused.head.find("Access-Control"), std::string::npos);
  // Browsers send such forms without a preflight request.
  form.send(head("POST /v1/completions", "Content-Type: text/plain\r\n"));
  EXPECT_EQ(form.answer().status, 415);
  Client asks = server.client();
  asks.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.org\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(asks.answer().status, 403);
}

TEST(Access, IsForPagesOfOriginsThatAreAllowed) {
  TestServer server({.sites = {.hosts = {}, .origins = {"https://chat.org"}}}, ApiKeys({"secret"}));
  const std::string allowed = "Access-Control-Allow-Origin: https://chat.org\r\nVary: Origin\r\n";
  Client client = server.client();
  client.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://chat.org\r\n"
      "Access-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization,content-type\r\n\r\n");
  const Client::Answer preflight = client.answer();
  EXPECT_EQ(preflight.status, 200);
  for (const std::string& line :
       {allowed, std::string("Access-Control-Allow-Methods: POST\r\n"),
        std::string("Access-Control-Allow-Headers: authorization,content-type\r\n")})
    EXPECT_NE(preflight.head.find(line), std::string::npos) << preflight.head;
  // One connection: an error, an answer and a stream of a page, then a request without an origin.
  const std::string origin = "Origin: https://chat.org\r\n",
                    key = "Authorization: Bearer secret\r\n";
  client.get("/v1/models", origin);
  const Client::Answer error = client.answer();
  EXPECT_EQ(error.status, 401);
  EXPECT_NE(error.head.find(allowed), std::string::npos);
  client.post("/v1/completions", kBody, origin + key);
  EXPECT_NE(client.answer().head.find(allowed), std::string::npos);
  client.post("/v1/completions", R"({"prompt":"x","max_tokens":1,"stream":true})", origin + key);
  EXPECT_NE(client.read_until("\r\n\r\n").find(allowed), std::string::npos);
  client.read_until("0\r\n\r\n");
  client.get("/health");
  EXPECT_EQ(client.answer().head.find("Access-Control"), std::string::npos);
}

// Keeps requests until the test releases them.
class Keeper : public Handler {
 public:
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) override {
    reply->send({});
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    changed_.notify_all();
  }
  bool wait_for(size_t requests) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10),
                             [&] { return requests_.size() >= requests; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    requests_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HttpRequest> requests_;
};

TEST(Bodies, HaveOneLimitForAllConnections) {
  Keeper keeper;
  // 1500 bytes of bodies, and 100 for the heads.
  Server server({.port = 0, .most_body_bytes = 1000, .most_bodies_bytes = 1600});
  const uint16_t port = server.listen(keeper).value();
  std::thread thread([&] { server.run(); });
  const auto status = [&](std::string_view framing) {
    Client client(port);
    client.send(fmt::format("POST / HTTP/1.1\r\n{}", framing));
    return client.answer().status;
  };
  const std::string whole = "Content-Length: 900\r\n\r\n" + std::string(900, 'x');
  EXPECT_EQ(status(whole), 200);
  ASSERT_TRUE(keeper.wait_for(1));
  EXPECT_EQ(status(whole), 503);
  // Chunked bodies announce no length and count too.
  EXPECT_EQ(
      status("Transfer-Encoding: chunked\r\n\r\n384\r\n" + std::string(900, 'x') + "\r\n0\r\n\r\n"),
      503);
  EXPECT_EQ(status("Content-Length: 600\r\n\r\n" + std::string(600, 'x')), 200);
  ASSERT_TRUE(keeper.wait_for(2));
  keeper.let_go();
  EXPECT_EQ(status(whole), 200);
  server.stop();
  thread.join();
}

TEST(Bodies, ShareTheirLimitWithTheHeadsOfTheirRequests) {
  Keeper keeper;
  Server server({.port = 0, .most_bodies_bytes = 1500});
  const uint16_t port = server.listen(keeper).value();
  std::thread thread([&] { server.run(); });
  const auto status = [&](std::string_view line, std::string_view framing) {
    Client client(port);
    client.send(fmt::format("{} HTTP/1.1\r\nX-Kvick-Cache-Salt: {}\r\n{}", line,
                            std::string(900, 's'), framing));
    return client.answer().status;
  };
  constexpr std::string_view kSmall = "Content-Length: 2\r\n\r\n{}";
  EXPECT_EQ(status("POST /", kSmall), 200);
  ASSERT_TRUE(keeper.wait_for(1));
  EXPECT_EQ(status("POST /", kSmall), 503);
  EXPECT_EQ(status("POST /", "Content-Length: 0\r\n\r\n"), 503);
  // A check of the server's health must not fail because others ask for much.
  EXPECT_EQ(status("GET /", "\r\n"), 200);
  EXPECT_EQ(status("HEAD /", "\r\n"), 200);
  ASSERT_TRUE(keeper.wait_for(3));
  keeper.let_go();
  EXPECT_EQ(status("POST /", kSmall), 200);
  server.stop();
  thread.join();
}

}  // namespace
}  // namespace kvick::server
