// Spans as a collector receives them.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <map>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/testing/hung_resolver.h"
#include "server/request/json.h"
#include "server/watch/otlp_exporter.h"
#include "server/watch/otlp_json.h"

namespace kvick::server {
namespace {

// A collector that accepts one connection after the other and answers each request with the next
// status, after a pause.
class Collector {
 public:
  explicit Collector(std::vector<unsigned> statuses, std::chrono::milliseconds pause = {})
      : statuses_(std::move(statuses)), pause_(pause) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (const unsigned status : statuses_) answer(status);
    });
  }
  ~Collector() {
    join();
    ::close(listener_);
  }
  // Accepts no further connection.
  void stop() {
    ::shutdown(listener_, SHUT_RDWR);
    join();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  uint16_t port = 0;
  std::vector<std::string> requests;

 private:
  void answer(unsigned status) {
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    std::string request;
    size_t body = std::string::npos, length = 0;
    char bytes[4096];
    while (body == std::string::npos || request.size() < body + length) {
      const ssize_t n = ::read(client, bytes, sizeof(bytes));
      if (n <= 0) break;
      request.append(bytes, static_cast<size_t>(n));
      if (body != std::string::npos || request.find("\r\n\r\n") == std::string::npos) continue;
      body = request.find("\r\n\r\n") + 4;
      length = std::stoul(request.substr(request.find("Content-Length: ") + 16));
    }
    requests.push_back(request);
    std::this_thread::sleep_for(pause_);
    const std::string answer = "HTTP/1.1 " + std::to_string(status) +
                               " X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    EXPECT_EQ(::write(client, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
    ::close(client);
  }

  int listener_ = -1;
  std::vector<unsigned> statuses_;
  std::chrono::milliseconds pause_;
  std::thread thread_;
};

OtlpOptions options_for(uint16_t port) {
  OtlpOptions options = read_otlp_address("http://127.0.0.1:" + std::to_string(port)).value();
  options.version = "1.2.3";
  options.pause = std::chrono::milliseconds(0);
  return options;
}

RequestFacts facts() {
  RequestFacts facts;
  facts.id = "request-1", facts.client = "10.0.0.7";
  facts.method = "POST", facts.route = "/v1/chat/completions";
  facts.model = "tiny", facts.finish = "stop";
  facts.trace = "0af7651916cd43dd8448eb211c80319c";
  facts.span = "00000000000000f0", facts.parent = "b7ad6b7169203331";
  facts.began = 100, facts.ended = 101, facts.began_unix_ns = 1'000'000'000'000;
  facts.first_text = 100.5;
  facts.prompt_tokens = 7, facts.cached_tokens = 4, facts.answer_tokens = 9;
  facts.status = 200;
  facts.times.submitted = 100.0, facts.times.started = 100.125, facts.times.first_token = 100.5;
  facts.times.load(100.125, 100.25, 4);
  for (int i = 0; i < 20; ++i) facts.times.read(100.25, 100.375, 1);
  return facts;
}

std::map<std::string, Json> attributes_of(const Json& span) {
  std::map<std::string, Json> all;
  for (const Json& one : span["attributes"]) all[one["key"]] = one["value"];
  return all;
}

TEST(Otlp, SendsASpanOfARequestAndOneForEachPartOfIt) {
  Collector collector({200});
  {
    OtlpExporter exporter(options_for(collector.port));
    exporter.add(facts());
    collector.join();
  }
  const std::string& request = collector.requests.at(0);
  EXPECT_TRUE(request.starts_with("POST /v1/traces HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("Content-Type: application/json\r\n"), std::string::npos);
  const std::string host = "Host: 127.0.0.1:" + std::to_string(collector.port) + "\r\n";
  EXPECT_NE(request.find(host), std::string::npos) << request;
  const Json all = Json::parse(request.substr(request.find("\r\n\r\n") + 4))["resourceSpans"][0];
  EXPECT_EQ(attributes_of(all["resource"])["service.name"]["stringValue"], "kvick");
  EXPECT_EQ(attributes_of(all["resource"])["service.version"]["stringValue"], "1.2.3");
  const Json& spans = all["scopeSpans"][0]["spans"];
  std::map<std::string, size_t> names;
  std::set<std::string> ids;
  for (const Json& span : spans) {
    ++names[span["name"]];
    ids.insert(span["spanId"]);
    EXPECT_EQ(span["traceId"], facts().trace);
    EXPECT_EQ(span["parentSpanId"], span == spans[0] ? facts().parent : facts().span);
    EXPECT_LE(span["startTimeUnixNano"].get<std::string>(),
              span["endTimeUnixNano"].get<std::string>());
  }
  EXPECT_EQ(names, (std::map<std::string, size_t>{{"POST /v1/chat/completions", 1},
                                                  {"queue", 1},
                                                  {"fetch", 1},
                                                  {"prompt", engine::JobTimes::kMostPieces},
                                                  {"answer", 1}}));
  EXPECT_EQ(ids.size(), spans.size());
  EXPECT_EQ(spans[0]["kind"], 2);
  EXPECT_EQ(spans[0]["endTimeUnixNano"], "1001000000000");
  EXPECT_EQ(spans[1]["endTimeUnixNano"], "1000125000000");
  auto whole = attributes_of(spans[0]);
  EXPECT_EQ(whole["gen_ai.request.model"]["stringValue"], "tiny");
  EXPECT_EQ(whole["gen_ai.operation.name"]["stringValue"], "chat");
  EXPECT_EQ(whole["gen_ai.usage.input_tokens"]["intValue"], "7");
  EXPECT_EQ(whole["gen_ai.usage.output_tokens"]["intValue"], "9");
  EXPECT_EQ(whole["gen_ai.usage.cache_read.input_tokens"]["intValue"], "4");
  EXPECT_EQ(whole["gen_ai.response.finish_reasons"]["arrayValue"]["values"][0]["stringValue"],
            "stop");
  EXPECT_EQ(whole["http.response.status_code"]["intValue"], "200");
  EXPECT_EQ(whole["kvick.first_token_seconds"]["doubleValue"], 0.5);
  // Steps beyond kMostPieces share the last piece.
  EXPECT_EQ(attributes_of(spans[spans.size() - 2])["kvick.tokens"]["intValue"], "5");
}

TEST(Otlp, NamesTheOperationByTheRoute) {
  for (const auto& [route, operation] : {std::pair("/completion", "text_completion"),
                                         {"/v1/completions", "text_completion"},
                                         {"/infill", "text_completion"},
                                         {"/api/generate", "text_completion"},
                                         {"/v1/chat/completions", "chat"},
                                         {"/v1/messages", "chat"},
                                         {"/api/embed", "embeddings"},
                                         {"/score", "rerank"}}) {
    RequestFacts one = facts();
    one.route = route;
    const Json all = Json::parse(otlp_text(std::span(&one, 1), "1"))["resourceSpans"][0];
    EXPECT_EQ(
        attributes_of(all["scopeSpans"][0]["spans"][0])["gen_ai.operation.name"]["stringValue"],
        operation)
        << route;
  }
}

TEST(Otlp, MarksWhatFailed) {
  RequestFacts failed = facts();
  failed.status = 500, failed.error = "the engine failed", failed.error_code = "engine_failed";
  const std::vector<RequestFacts> requests = {failed};
  const Json spans =
      Json::parse(otlp_text(requests, ""))["resourceSpans"][0]["scopeSpans"][0]["spans"];
  EXPECT_EQ(spans[0]["status"]["code"], 2);
  EXPECT_EQ(attributes_of(spans[0])["error.type"]["stringValue"], "engine_failed");
}

TEST(Otlp, CountsWhatACollectorDoesNotTakeAndGoesOn) {
  Collector collector({503, 200});
  std::vector<std::string> said;
  OtlpOptions options = options_for(collector.port);
  options.most_batch = 1;
  options.report = [&](const std::string& what) { said.push_back(what); };
  SpanCounts counts;
  {
    OtlpExporter exporter(std::move(options));
    exporter.add(facts());
    exporter.add(facts());
    collector.join();
    while ((counts = exporter.counts()).sent == 0) std::this_thread::yield();
  }
  EXPECT_EQ(counts.failed, 1U);
  EXPECT_EQ(counts.sent, 1U);
  ASSERT_EQ(said.size(), 2U);
  EXPECT_NE(said[0].find("status 503"), std::string::npos);
  EXPECT_NE(said[1].find("again"), std::string::npos);
}

TEST(Otlp, DropsWhatFindsNoRoomAndEndsWithoutACollector) {
  OtlpOptions options = options_for(1);  // nobody listens on this port
  options.most_waiting = 4;
  options.pause = std::chrono::hours(1);
  OtlpExporter exporter(std::move(options));
  for (int i = 0; i < 10; ++i) exporter.add(facts());
  EXPECT_GE(exporter.counts().dropped, 6U);
}

TEST(Otlp, EndsThoughNoNameServerAnswers) {
  base::HungResolver resolver;
  std::vector<std::string> said;
  OtlpOptions options = options_for(1);
  options.time = std::chrono::milliseconds(20);
  options.most_batch = 1;
  options.report = [&](const std::string& what) { said.push_back(what); };
  {
    OtlpExporter exporter(std::move(options), resolver.resolve());
    for (int i = 0; i < 10; ++i) exporter.add(facts());
  }
  resolver.open();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("its name is not found in time"), std::string::npos) << said[0];
}

// Without a limit for all of them the batches would take 20 s.
TEST(Otlp, EndsInTimeThoughTheCollectorIsSlow) {
  Collector collector(std::vector<unsigned>(1000, 200), std::chrono::milliseconds(20));
  OtlpOptions options = options_for(collector.port);
  options.time = std::chrono::milliseconds(500);
  options.most_batch = 1;
  options.pause = std::chrono::hours(1);
  {
    OtlpExporter exporter(std::move(options));
    for (int i = 0; i < 1000; ++i) exporter.add(facts());
  }
  collector.stop();
  EXPECT_LT(collector.requests.size(), 1000U);
}

TEST(Otlp, ReadsAddressesOfCollectors) {
  EXPECT_EQ(read_otlp_address("http://host")->port, "4318");
  EXPECT_EQ(read_otlp_address("http://host")->path, "/v1/traces");
  EXPECT_EQ(read_otlp_address("http://host:1/a/b/")->path, "/a/b/v1/traces");
  EXPECT_EQ(read_otlp_address("http://host:1/a")->port, "1");
  EXPECT_EQ(read_otlp_address("http://[::1]:99")->host, "::1");
  EXPECT_EQ(read_otlp_address("http://[::1]")->host, "::1");
  for (const char* wrong : {"", "host", "https://host", "http://", "http://host:", "http://host:x",
                            "http://host:65536"})
    EXPECT_FALSE(read_otlp_address(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace kvick::server
