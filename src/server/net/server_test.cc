// The server over real sockets, with well-behaved and faulty clients.

#include "server/net/server.h"

#include <csignal>
#include <gtest/gtest.h>
#include <mutex>

#include "server/testing/server.h"

namespace kvick::server {
namespace {

using std::chrono::milliseconds;

// The body of a completion request for `n` words, with further fields.
std::string words(int n, std::string_view fields = "") {
  return fmt::format(R"({{"prompt":"x","max_tokens":{}{}}})", n, fields);
}
constexpr const char* kPath = "/v1/completions";
// The head of a request whose body comes in chunks.
constexpr const char* kChunked =
    "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";
constexpr const char* kStream = R"(,"stream":true)";
constexpr const char* kHold = R"(,"cache_salt":"hold")";
constexpr const char* kStreamHold = R"(,"stream":true,"cache_salt":"hold")";

std::string text_of(const Client::Answer& answer) {
  return Json::parse(answer.body)["choices"][0]["text"];
}

TEST(Server, AnswersRequestAfterRequestOnOneConnection) {
  TestServer server;
  Client client = server.client();
  for (const int n : {1, 3}) {
    client.post(kPath, words(n));
    const Client::Answer answer = client.answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(text_of(answer), n == 1 ? "w0" : "w0 w1 w2");
  }
  client.get("/health", "Connection: close\r\n");
  EXPECT_NE(client.read_to_end().find("Connection: close\r\n"), std::string::npos);
}

TEST(Server, StreamsEventsInChunks) {
  TestServer server;
  Client client = server.client();
  client.post("/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":3,"stream":true})");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Content-Type: text/event-stream\r\n"), std::string::npos);
  const std::string stream = client.read_until("0\r\n\r\n");
  EXPECT_NE(stream.find(R"("delta":{"content":" w2"})"), std::string::npos);
  EXPECT_NE(stream.find("data: [DONE]\n\n"), std::string::npos);
  client.get("/health");
  EXPECT_EQ(client.answer().status, 200);
}

TEST(Server, KeepsASilentStreamAliveWithComments) {
  TestServer server({.heartbeat_time = milliseconds(5)});
  Client client = server.client();
  client.post(kPath, words(2, R"(,"stream":true,"cache_salt":"pause")"));
  client.read_until("\r\n\r\n");
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(client.read_until(": heartbeat\n\n").ends_with("d\r\n: heartbeat\n\n"));
  server.service.release();
  const std::string stream = client.read_until("0\r\n\r\n");
  EXPECT_NE(stream.find(R"("text":"w0")"), std::string::npos);
  EXPECT_NE(stream.find("data: [DONE]\n\n"), std::string::npos);
  client.get("/health");  // no heartbeat comes before its answer
  EXPECT_TRUE(client.answer().head.starts_with("HTTP/1.1 200"));
}

TEST(Server, SendsNoCommentsInAnswersThatAreNoStreamAndWhereTheyAreOff) {
  TestServer beating({.heartbeat_time = milliseconds(1)});
  Client whole = beating.client();
  whole.post(kPath, words(3, R"(,"cache_salt":"pause")"));
  EXPECT_TRUE(beating.service.wait_for_jobs(1));
  beating.service.release();
  EXPECT_EQ(text_of(whole.answer()), "w0 w1 w2");
  TestServer off({.heartbeat_time = milliseconds(0)});
  Client stream = off.client();
  stream.post(kPath, words(2, R"(,"stream":true,"cache_salt":"pause")"));
  EXPECT_TRUE(off.service.wait_for_jobs(1));
  off.service.release();
  EXPECT_EQ(stream.read_until("0\r\n\r\n").find("heartbeat"), std::string::npos);
}

TEST(Server, AnswersRequestsThatCameTogetherInTheirOrder) {
  TestServer server;
  Client client = server.client();
  std::string all;
  for (const int n : {3, 1, 2}) {
    const std::string body = words(n);
    all += fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n{}",
        kPath, body.size(), body);
  }
  client.send(all + "GET /health HTTP/1.1\r\n\r\n");
  for (const char* text : {"w0 w1 w2", "w0", "w0 w1"}) EXPECT_EQ(text_of(client.answer()), text);
  EXPECT_EQ(client.answer().body, R"({"status":"ok"})");
}

TEST(Server, TakesRequestsByteByByteAndInChunks) {
  TestServer server;
  Client client = server.client();
  for (const char c : std::string_view("GET /health HTTP/1.1\r\n\r\n")) client.send({&c, 1});
  EXPECT_EQ(client.answer().status, 200);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"promp\r\n");
  client.send("9\r\nt\":\"abc\"}\r\n0\r\n\r\n");
  EXPECT_EQ(client.answer().status, 200);
}

TEST(Server, CancelsTheJobOfAClientThatHangsUp) {
  TestServer server;
  Client stream = server.client(), whole = server.client();
  stream.post(kPath, words(9, kStreamHold));
  stream.read_until("w0");
  stream.hang_up();
  EXPECT_TRUE(server.service.wait_for_cancellations(1));
  whole.post(kPath, words(9, kHold));
  EXPECT_TRUE(server.service.wait_for_jobs(2));
  whole.hang_up();
  EXPECT_TRUE(server.service.wait_for_cancellations(2));
}

TEST(Server, DropsAClientThatDoesNotReadItsStream) {
  TestServer server({.most_unread_bytes = 64 << 10});
  Client client = server.client(4096);
  client.post(kPath, words(9, R"(,"stream":true,"cache_salt":"flood")"));
  EXPECT_TRUE(server.service.wait_for_cancellations(1));
  EXPECT_EQ(server.metric("http_dropped_total{why=\"slow_reader\"}"), 1);
}

TEST(Server, RefusesRequestsThatAreTooLong) {
  TestServer server({.most_head_bytes = 1000, .most_body_bytes = 1000});
  Client body = server.client(), chunked = server.client(), head = server.client();
  body.post(kPath, std::string(5000, ' '));
  EXPECT_EQ(body.answer().status, 413);
  EXPECT_EQ(body.read_to_end(), "");
  Client ollama = server.client();
  ollama.post("/api/chat", std::string(5000, ' '));
  EXPECT_TRUE(Json::parse(ollama.answer().body)["error"].is_string());
  chunked.send(kChunked);
  for (int i = 0; i < 3; ++i) chunked.send("1f4\r\n" + std::string(500, ' ') + "\r\n");
  EXPECT_EQ(chunked.answer().status, 413);
  head.get("/health", "X: " + std::string(2000, 'x') + "\r\n");
  EXPECT_EQ(head.answer().status, 431);
}

TEST(Server, RefusesWhatIsNotHttp) {
  TestServer server;
  for (const std::string& bytes :
       {std::string("hello\r\n\r\n"), std::string("GET /\r\n\r\n"),
        std::string(64, '\0') + "\r\n\r\n", std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        kChunked + std::string("zz\r\n")}) {
    Client client = server.client();
    client.send(bytes);
    const Client::Answer answer = client.answer();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_EQ(Json::parse(answer.body)["error"]["type"], "invalid_request_error");
  }
}

TEST(Server, DoesNotKeepALineThatNeverEnds) {
  TestServer server;
  Client client = server.client();
  client.send(kChunked + std::string("1;"));
  client.send(std::string(200'000, 'x'));
  EXPECT_GE(client.answer().status, 400);
}

TEST(Server, SendsAwayClientsThatTakeTooLong) {
  TestServer server({.head_time = milliseconds(50),
                     .body_time = milliseconds(50),
                     .idle_time = milliseconds(50)});
  Client silent = server.client(), head = server.client(), body = server.client(),
         idle = server.client();
  head.send("GET /health HT");
  body.send(
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: "
      "10\r\n\r\n"
      "{");
  idle.get("/health");
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_EQ(head.answer().status, 408);
  EXPECT_EQ(body.answer().status, 408);
  EXPECT_EQ(idle.answer().status, 200);
  EXPECT_EQ(idle.read_to_end(), "");
}

TEST(Server, AsksForAKey) {
  TestServer server({}, ApiKeys({"secret"}));
  Client client = server.client();
  client.get("/v1/models");
  const Client::Answer refused = client.answer();
  EXPECT_EQ(refused.status, 401);
  EXPECT_NE(refused.head.find("\r\nWWW-Authenticate: Bearer\r\n"), std::string::npos);
  client.get("/v1/models", "Authorization: Bearer secret\r\n");
  EXPECT_EQ(client.answer().status, 200);
}

TEST(Server, AnswersErrorsAndGoesOnOnTheSameConnection) {
  TestServer server;
  Client client = server.client();
  client.get("/nothing");
  EXPECT_EQ(client.answer().status, 404);
  client.get(kPath);
  const Client::Answer wrong = client.answer();
  EXPECT_EQ(wrong.status, 405);
  EXPECT_NE(wrong.head.find("\r\nAllow: POST\r\n"), std::string::npos);
  client.post(kPath, "{\"prompt\":");
  EXPECT_EQ(client.answer().status, 400);
  client.post(kPath, words(1));
  EXPECT_EQ(client.answer().status, 200);
}

TEST(Server, SaysWhenThereAreTooManyConnections) {
  TestServer server({.most_connections = 1});
  Client first = server.client();
  first.get("/health");
  EXPECT_EQ(first.answer().status, 200);
  Client second = server.client();
  EXPECT_EQ(second.answer().status, 503);
  first.hang_up();
  EXPECT_EQ(second.read_to_end(), "");
}

TEST(Server, SpeaksToOldClients) {
  TestServer server;
  Client client = server.client(), old = server.client();
  client.send(
      fmt::format("POST {} HTTP/1.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                  "Content-Length: {}\r\n\r\n",
                  kPath, words(1).size()));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(words(1));
  EXPECT_EQ(client.answer().status, 200);
  client.send("HEAD /health HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("Content-Length: 15"), std::string::npos);
  EXPECT_EQ(client.answer().body, R"({"status":"ok"})");
  const std::string body = words(2, kStream);
  old.send(
      fmt::format("POST {} HTTP/1.0\r\nContent-Type: application/json\r\nExpect: "
                  "100-continue\r\nContent-Length: {}\r\n\r\n{}",
                  kPath, body.size(), body));
  const std::string all = old.read_to_end();
  EXPECT_TRUE(all.starts_with("HTTP/1.0 200 OK\r\n")) << all;
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n")) << all;
  EXPECT_EQ(all.find("chunked"), std::string::npos);
}

TEST(Server, SaysThatItIsThereToWhoAsksForItsOptions) {
  TestServer server({}, ApiKeys({"secret"}));
  Client client = server.client();
  client.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string head = client.answer().head;
  EXPECT_TRUE(head.starts_with("HTTP/1.1 204 No Content\r\n")) << head;
  EXPECT_EQ(head.find("\r\nContent-"), std::string::npos) << head;
  client.get("/health");
  EXPECT_EQ(client.answer().status, 200);
}

TEST(Server, DrainsByFinishingWhatItHas) {
  TestServer server;
  Client busy = server.client(), idle = server.client();
  idle.get("/health");
  EXPECT_EQ(idle.answer().status, 200);
  busy.post(kPath, words(3, R"(,"stream":true,"cache_salt":"pause")"));
  EXPECT_TRUE(server.service.wait_for_jobs(1));
  server.server().drain(milliseconds(10'000));
  EXPECT_EQ(idle.read_to_end(), "");
  // A drain refuses new requests and does not wait for their connections.
  Client late = server.client(), never = server.client();
  late.get("/health");
  EXPECT_EQ(late.answer().status, 503);
  EXPECT_EQ(late.read_to_end(), "");
  Client more = server.client();
  more.post(kPath, words(3));
  EXPECT_EQ(more.answer().status, 503);
  EXPECT_FALSE(server.ended());
  server.service.release();
  EXPECT_NE(busy.read_to_end().find("data: [DONE]"), std::string::npos);
  busy.hang_up();
  server.join();
}

TEST(Server, StopsWhatHasNotDrainedInTime) {
  TestServer server;
  Client client = server.client();
  client.post(kPath, words(3, kStreamHold));
  client.read_until("w0");
  server.server().drain(milliseconds(50));
  server.join();
  EXPECT_EQ(client.read_to_end().find("[DONE]"), std::string::npos);
  EXPECT_TRUE(server.service.wait_for_cancellations(1));
}

TEST(Server, DrainsAtOnceWhenThereIsNothingToDo) {
  TestServer server;
  server.server().drain(milliseconds(10'000));
  server.join();
  EXPECT_TRUE(server.ended());
}

TEST(Server, DrainsWhenASignalComesAndStopsAtTheSecond) {
  TestServer server({.signals = true});
  Client idle = server.client(), busy = server.client();
  idle.get("/health");
  EXPECT_EQ(idle.answer().status, 200);  // the server runs, so it handles signals already
  busy.post(kPath, words(3, kStreamHold));
  busy.read_until("w0");
  kill(getpid(), SIGTERM);
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_FALSE(server.ended());
  kill(getpid(), SIGTERM);
  server.join();
  EXPECT_TRUE(server.service.wait_for_cancellations(1));
  // The default action is restored: a third signal ends the program at once.
  struct sigaction now = {};
  EXPECT_EQ(sigaction(SIGTERM, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST(Server, StreamsToAHundredClientsAtOnce) {
  TestServer server;
  std::vector<Client> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(server.client());
    clients.back().post(kPath, words(20 + i % 7, kStream));
  }
  for (int i = 0; i < 100; ++i) {
    const std::string all = clients[static_cast<size_t>(i)].read_until("0\r\n\r\n");
    EXPECT_NE(all.find(fmt::format("\"text\":\" w{}\"", 19 + i % 7)), std::string::npos);
    EXPECT_EQ(all.find(fmt::format("w{}\"", 20 + i % 7)), std::string::npos);
    EXPECT_NE(all.find("[DONE]"), std::string::npos);
  }
}

TEST(Server, TakesRequestsWhileOthersAreStillBeingRead) {
  TestServer server({.background_threads = 2});
  std::mutex reading;
  reading.lock();
  const auto occupy = [&] {
    server.server().threads().background([&] { const std::lock_guard wait(reading); });
  };
  occupy();
  Client client = server.client();
  client.post(kPath, words(1));
  EXPECT_EQ(client.answer().status, 200);
  occupy();  // all background threads are busy, but status routes still answer
  for (const char* path : {"/metrics", "/health", "/v1/models"}) {
    client.get(path);
    EXPECT_EQ(client.answer().status, 200) << path;
  }
  reading.unlock();
}

TEST(Server, CannotListenWhereAnotherDoes) {
  TestServer first;
  Server second({.port = first.port});
  class None : public Handler {
    void handle(HttpRequest, std::shared_ptr<Reply>) override {}
  } none;
  const auto port = second.listen(none);
  ASSERT_FALSE(port.ok());
  EXPECT_EQ(
      port.error().message,
      fmt::format("cannot listen on 127.0.0.1 port {}: Address already in use; choose another "
                  "with --port",
                  first.port));
  EXPECT_FALSE(Server({.host = "no host"}).listen(none).ok());
}

TEST(Server, AnswersForAHandlerThatDoesNot) {
  class None : public Handler {
    void handle(HttpRequest, std::shared_ptr<Reply>) override {}
  } none;
  Server server({.port = 0});
  const uint16_t port = server.listen(none).value();
  std::thread thread([&] { server.run(); });
  Client client(port);
  client.get("/");
  EXPECT_EQ(client.answer().status, 500);
  server.stop();
  thread.join();
}

}  // namespace
}  // namespace kvick::server
