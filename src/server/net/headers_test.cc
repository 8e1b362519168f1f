// X-Kvick and id headers, a handler that replaces another, and an answer that is read slowly.

#include <gtest/gtest.h>
#include <set>

#include "server/testing/server.h"

namespace kvick::server {
namespace {

using std::chrono::milliseconds;

TEST(Server, RepeatsTheIdOfARequest) {
  TestServer server;
  Client client = server.client();
  const auto head = [&](std::string_view path, std::string_view id) {
    client.get(path, fmt::format("X-Request-Id: {}\r\n", id));
    const auto answer = client.answer();
    const bool both =
        answer.head.find(fmt::format("\r\nX-Request-Id: {}\r\n", id)) != std::string::npos &&
        answer.head.find(fmt::format("\r\nRequest-Id: {}\r\n", id)) != std::string::npos;
    return std::pair(answer.status, both);
  };
  EXPECT_EQ(head("/health", "a-1"), std::pair(200, true));
  EXPECT_EQ(head("/nowhere", "b/2:x"), std::pair(404, true));
  for (const std::string& bad :
       {std::string("a b"), std::string("\xC3\xA4"), std::string(129, 'x')}) {
    Client other = server.client();
    other.get("/health", fmt::format("X-Request-Id: {}\r\n", bad));
    EXPECT_EQ(other.answer().status, 400) << bad;
  }
  client.post("/v1/completions", R"({"prompt":"x","max_tokens":2,"stream":true})",
              "X-Request-Id: s\r\n");
  EXPECT_NE(client.read_until("[DONE]").find("X-Request-Id: s\r\n"), std::string::npos);
}

TEST(Server, MakesAnIdForARequestThatHasNone) {
  TestServer server;
  Client client = server.client();
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    client.get("/health");
    const std::string head = client.answer().head;
    const size_t at = head.find("X-Request-Id: ");
    ASSERT_NE(at, std::string::npos) << head;
    ids.insert(head.substr(at, head.find('\r', at) - at));
  }
  EXPECT_EQ(ids.size(), 3U);
}

TEST(Server, ReadsHeadersThatChoose) {
  struct Keeps final : Handler {
    void handle(HttpRequest request, std::shared_ptr<Reply> reply) override {
      choices = request.choices;
      reply->send({.body = "{}"});
    }
    Headers choices;
  } keeps;
  Server server({.port = 0});
  const uint16_t port = server.listen(keeps).value();
  std::thread thread([&] { server.run(); });
  Client client(port);
  client.get("/health", "X-Kvick-KV: bmc\r\nX-Request-Id-Kvick-Spec: auto\r\nX-Other: 1\r\n");
  EXPECT_EQ(client.answer().status, 200);
  server.stop();
  thread.join();
  EXPECT_EQ(keeps.choices, (Headers{{"x-kvick-kv", "bmc"}, {"x-kvick-spec", "auto"}}));
}

TEST(Server, TakesNoHeadersFromTheTrailersOfABody) {
  struct Keeps final : Handler {
    void handle(HttpRequest request, std::shared_ptr<Reply> reply) override {
      seen = std::move(request);
      reply->send({.body = "{}"});
    }
    HttpRequest seen;
  } keeps;
  Server server({.port = 0});
  const uint16_t port = server.listen(keeps).value();
  std::thread thread([&] { server.run(); });
  Client client(port);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\n{}\r\n0\r\nX-Kvick-Spec: auto\r\nX-Request-Id: a b\r\n\r\n");
  EXPECT_EQ(client.answer().status, 200);
  server.stop();
  thread.join();
  EXPECT_EQ(keeps.seen.body, "{}");
  EXPECT_TRUE(keeps.seen.choices.empty());
  EXPECT_EQ(keeps.seen.id.find(' '), std::string::npos);
}

TEST(Server, RefusesATransferEncodingThatDoesNotEndWithChunked) {
  TestServer server;
  for (const char* coding : {"chunked, identity", "identity", "xchunked\r\nContent-Length: 2"}) {
    Client client = server.client();
    client.send(
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                    "{}\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    coding));
    const auto answer = client.answer();
    EXPECT_EQ(answer.status, 400) << coding;
    EXPECT_NE(answer.head.find("Connection: close"), std::string::npos) << answer.head;
    EXPECT_TRUE(client.ended()) << coding;
  }
}

TEST(Server, RefusesARequestWithTwoLengths) {
  TestServer server;
  for (const char* lengths : {"Content-Length: 5\r\nTransfer-Encoding: chunked",
                              "Transfer-Encoding: chunked\r\nContent-Length: 5",
                              "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                              "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 6"}) {
    Client client = server.client();
    client.send(
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    "application/json\r\n{}\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n",
                    lengths));
    EXPECT_EQ(client.answer().status, 400) << lengths;
    EXPECT_TRUE(client.ended()) << lengths;
  }
}

TEST(Server, HandsOverToAnotherHandler) {
  struct Says final : Handler {
    explicit Says(unsigned number) : status(number) {}
    void handle(HttpRequest, std::shared_ptr<Reply> reply) override {
      reply->send({.status = status, .body = "{}"});
    }
    unsigned status;
  } first(503), second(200);
  Server server({.port = 0});
  const uint16_t port = server.listen(first).value();
  std::thread thread([&] { server.run(); });
  Client client(port);
  client.get("/health");
  EXPECT_EQ(client.answer().status, 503);
  server.hand_over(second, false);
  client.get("/health");
  EXPECT_EQ(client.answer().status, 200);
  server.stop();
  thread.join();
}

// The client reads all the time, so no single write waits long.
TEST(Server, DropsAClientThatReadsAWholeAnswerTooSlowly) {
  class Large : public Handler {
    void handle(HttpRequest, std::shared_ptr<Reply> reply) override {
      reply->send({.body = std::string(64 << 20, 'x')});
    }
  } large;
  Server server({.port = 0, .most_unread_bytes = 16 << 20, .write_time = milliseconds(200)});
  const uint16_t port = server.listen(large).value();
  std::thread thread([&] { server.run(); });
  Client client(port, 1 << 16);
  client.get("/");
  const std::string piece(1 << 20, 'x');
  size_t bytes = 0;
  for (std::string got = piece; got.size() >= piece.size(); bytes += got.size()) {
    std::this_thread::sleep_for(milliseconds(40));
    got = client.read_until(piece);
  }
  server.stop();
  thread.join();
  EXPECT_LT(bytes, size_t{64} << 20);
  EXPECT_EQ(server.counters().slow, 1U);
}

// Clients show what they find in the form of their API, and otherwise only a status.
TEST(Server, RefusesHeadsInTheFormOfTheirPathsApi) {
  // Only where the head never ends is the time short: a slow machine may need longer for the
  // others.
  TestServer patient({.most_head_bytes = 1000}), hasty({.head_time = milliseconds(500)});
  const auto answer_to = [](TestServer& server, std::string_view bytes) {
    Client client = server.client();
    client.send(bytes);
    return client.answer();
  };
  const std::string rest = " HTTP/1.1\r\nHost: localhost\r\n";
  const std::string longest = rest + "X: " + std::string(2000, 'x') + "\r\n\r\n";
  for (const auto& [status, bad] :
       {std::pair(431, longest), std::pair(400, rest + "no colon\r\n\r\n"), std::pair(408, rest)}) {
    TestServer& server = status == 408 ? hasty : patient;
    const Client::Answer ollama = answer_to(server, "POST /api/chat" + bad);
    EXPECT_EQ(ollama.status, status);
    EXPECT_TRUE(Json::parse(ollama.body)["error"].is_string()) << ollama.body;
    const Client::Answer anthropic = answer_to(server, "POST /v1/messages" + bad);
    EXPECT_EQ(anthropic.status, status);
    EXPECT_EQ(Json::parse(anthropic.body)["type"], "error") << anthropic.body;
    const Client::Answer openai = answer_to(server, "POST /v1/chat/completions" + bad);
    EXPECT_EQ(openai.status, status);
    EXPECT_TRUE(Json::parse(openai.body)["error"].contains("code")) << openai.body;
  }
}

// Answers no request.
class Silent final : public Handler {
 public:
  HttpResponse error_of(const HttpRequest& head, const ApiError& error) const override {
    return {.status = error.status, .body = head.target + ": " + error.message};
  }
  void handle(HttpRequest, std::shared_ptr<Reply>) override {}
};

TEST(Server, SaysInTheFormOfTheRequestsPathThatNoAnswerCame) {
  Silent silent;
  Server server({.port = 0});
  const auto port = server.listen(silent);
  ASSERT_TRUE(port.ok()) << port.error().message;
  std::thread network([&] { server.run(); });
  Client client(*port);
  for (const char* target : {"/v1/messages?beta=true", "/api/chat"}) {
    client.post(target, "{}");
    const Client::Answer answer = client.answer();
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(answer.body, fmt::format("{}: the server gave no answer", target));
  }
  server.stop();
  network.join();
}

TEST(Server, SaysWhatToDoAboutARequestThatIsTooLongOrNotHttp) {
  TestServer server({.most_head_bytes = 1000, .most_body_bytes = 1000});
  const auto error_of = [&](std::string_view bytes) {
    Client client = server.client();
    client.send(bytes);
    return Json::parse(client.answer().body)["error"]["message"].get<std::string>();
  };
  const auto says = [](const std::string& message, std::string_view words) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  says(error_of("GET /health HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n"),
       "longer than 1000 bytes; send fewer or shorter headers");
  says(error_of("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                "application/json\r\nContent-Length: 2000\r\n\r\n"),
       "--max-body");
  says(error_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "HTTP/1.1");  // HTTP/2's first bytes
}

}  // namespace
}  // namespace kvick::server
