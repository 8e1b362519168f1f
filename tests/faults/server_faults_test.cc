// Tests a server with 32 clients while some allocations of the whole process fail, and with a model
// that has values that are not numbers. The server stays alive, answers or refuses every request,
// its complete answers are right, and at the end it has as much memory as before.
//
// KVICK_FAULT_SECONDS: duration of the test in seconds, 4 by default.

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <malloc.h>
#include <map>
#include <random>
#include <thread>

#include "allocations.h"
#include "poisoned_model.h"

#include "engine/prefix/prefix_files.h"
#include "engine/serving/instances.h"
#include "server/api/api.h"
#include "server/embeddings/embed.h"
#include "server/net/server.h"
#include "server/openai/answer_forms.h"
#include "server/request/request_record.h"
#include "server/responses/response_store.h"
#include "server/testing/api.h"
#include "server/testing/client.h"
#include "server/watch/otlp_exporter.h"

namespace kvick::server {
namespace {

namespace fs = std::filesystem;

constexpr int kClients = 32;
constexpr uint64_t kOneIn = 4000;  // one in this many allocations fails: several per request

// Counts how requests ended.
struct Ends {
  std::atomic<uint64_t> right{0};    // 200 with the right text
  std::atomic<uint64_t> failed{0};   // 500, or an error in a stream
  std::atomic<uint64_t> refused{0};  // 400, 429 or 503
  std::atomic<uint64_t> closed{0};   // connection closed, without memory to answer
  std::atomic<uint64_t> wrong{0};    // 200 with another text
  std::atomic<uint64_t> hung{0};     // no answer until the client's timeout
};

class Faults : public testing::Test {
 protected:
  Faults() {
    faults::Spared spared;
    folder_ = fs::temp_directory_path() / fmt::format("kvick-faults-{}", getpid());
    fs::remove_all(folder_);
    engine_ = faults::poisoned_engine();
    engine::EngineThreadOptions options;
    options.batch.kv = engine::parse_kv_options("paged:block=16", "").value();
    options.batch.kv_bytes = 700 * engine_->make_store({}).value()->shape().token_bytes();
    options.batch.headroom_tokens = 2;
    options.batch.spec = engine::parse_spec_options("lookup").value();
    options.batch.files = std::move(engine::PrefixFiles::open({.folder = folder_})).value();
    options.most_waiting = 24;  // so that some requests are refused
    service_ = std::move(engine::EngineThread::make(*engine_, options)).value();
    server_.emplace(ServerOptions{.port = 0});
    api_.emplace(*engine_, *service_,
                 ApiOptions{.model = "tiny",
                            .keys = ApiKeys(),
                            .constraint = answer_forms(engine_->tokenizer()),
                            .random = [n = uint64_t{0}]() mutable { return ++n; },
                            .unix_time = [] { return 1000; },
                            .report = {}},
                 server_->threads(), server_->counters());
    port_ = std::move(server_->listen(*api_)).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Faults() override {
    faults::fail_one_in(0);
    server_->stop();
    thread_.join();
    server_.reset();
    service_.reset();
    fs::remove_all(folder_);
  }

  // A request. poisoned: it is answered with an error even without faults.
  struct Request {
    std::string path, body;
    bool stream = false, poisoned = false;
  };
  static Request request_of(uint32_t number);
  // Returns the bytes that the client reads; empty: none came.
  std::string ask(Client& client, const Request& request) const;
  void run_client(int number, const std::atomic<bool>& stop);
  bool count(uint32_t which, const std::string& answer, double seconds);
  engine::Metrics idle() const;
  int open_connections() const;

  fs::path folder_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<engine::EngineThread> service_;
  std::optional<Server> server_;
  std::optional<Api> api_;
  uint16_t port_ = 0;
  std::thread thread_;
  std::map<uint32_t, std::string> expected_;  // the text of the right answer, by request number
  Ends ends_;
};

constexpr uint32_t kRequests = 12;

Faults::Request Faults::request_of(uint32_t number) {
  Request request = {.path = "/v1/completions"};
  std::string prompt = fmt::format("{}", 10 + number);
  for (uint32_t i = 0; i < 20 + 11 * number; ++i) prompt += fmt::format(",{}", 20 + i % 9);
  request.poisoned = number % 6 == 5 || number == 4;
  if (request.poisoned) prompt += fmt::format(",{}", faults::kPoisoned);
  request.stream = number % 3 == 1;
  std::string more;
  if (number % 4 == 2 && !request.stream) more = ",\"n\":3,\"logprobs\":2";
  if (number % 4 == 3 && request.poisoned) more = ",\"echo\":true,\"logprobs\":1";
  request.body = fmt::format(
      "{{\"model\":\"tiny\",\"prompt\":[{}],\"max_tokens\":{},\"temperature\":0,\"stream\":{}{}}}",
      prompt, 4 + number, request.stream, more);
  return request;
}

std::string Faults::ask(Client& client, const Request& request) const {
  client.post(request.path, request.body);
  if (!request.stream) {
    const Client::Answer answer = client.answer();
    return answer.head + answer.body;
  }
  std::string answer = client.read_until("\r\n\r\n");
  if (answer.find("Content-Length: ") != std::string::npos) {  // an error before the stream begins
    const size_t at = answer.find("Content-Length: ");
    return answer + client.read_until("}}").substr(0, std::stoul(answer.substr(at + 16)));
  }
  return answer.empty() ? answer : answer + client.read_until("0\r\n\r\n");
}

// Returns the text of all choices, from a stream or a complete answer.
std::string text_of(const std::string& answer) {
  std::string text;
  for (size_t at = 0; (at = answer.find("\"text\":\"", at)) != std::string::npos;) {
    at += 8;
    size_t end = at;
    while (end < answer.size() && answer[end] != '"') end += answer[end] == '\\' ? 2 : 1;
    text += answer.substr(at, end - at);
  }
  return text;
}

// Counts an answer. Returns false if the client should drop the connection.
bool Faults::count(uint32_t which, const std::string& answer, double seconds) {
  const Request request = request_of(which);
  const int status = answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
  const bool whole = answer.ends_with(request.stream && status == 200 ? "0\r\n\r\n" : "}");
  if (status == 0 || !whole) {
    ++(seconds >= 9 ? ends_.hung : ends_.closed);
    return false;
  }
  if (answer.find("\"error\"") != std::string::npos)
    ++(status == 400 || status == 429 || status == 503 ? ends_.refused : ends_.failed);
  else
    ++(status == 200 && !request.poisoned && text_of(answer) == expected_.at(which) ? ends_.right
                                                                                    : ends_.wrong);
  return status == 200;
}

void Faults::run_client(int number, const std::atomic<bool>& stop) {
  faults::Spared spared;
  std::mt19937 random(static_cast<uint32_t>(number));
  std::optional<Client> client;
  while (!stop) {
    if (!client) client.emplace(port_);
    const auto which = static_cast<uint32_t>(random() % kRequests);
    const Request request = request_of(which);
    if (random() % 16 == 0) {  // disconnects before the answer
      client->post(request.path, request.body);
      client.reset();
      continue;
    }
    const double began = base::steady_seconds();
    const std::string answer = ask(*client, request);
    if (!count(which, answer, base::steady_seconds() - began)) client.reset();
  }
}

// Waits until nothing runs, at most 10 s, and returns the metrics.
engine::Metrics Faults::idle() const {
  for (int i = 0; i < 2000; ++i) {
    const engine::Metrics metrics = service_->metrics();
    if (metrics.running + metrics.waiting + metrics.preempted == 0) return metrics;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return service_->metrics();
}

// Waits until the connection of this call is the only one, at most 10 s. Returns how many there
// are.
int Faults::open_connections() const {
  constexpr std::string_view kName = "\nkvick_http_connections ";
  int open = 0;
  for (int i = 0; i < 2000 && open != 1; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Client client(port_);
    client.get("/metrics");
    const std::string body = client.answer().body;
    const size_t at = body.find(kName);
    open = at == std::string::npos ? -1 : std::atoi(body.c_str() + at + kName.size());
  }
  return open;
}

TEST_F(Faults, LeaveAServerThatAnswers) {
  faults::Spared spared;
  const char* const given = std::getenv("KVICK_FAULT_SECONDS");
  const double seconds = given != nullptr ? std::atof(given) : 4;
  const auto ask_all = [&] {
    Client client(port_);
    for (uint32_t i = 0; i < kRequests; ++i) {
      const Request request = request_of(i);
      const std::string answer = ask(client, request);
      const bool error = answer.find("\"error\"") != std::string::npos;
      EXPECT_EQ(error, request.poisoned) << i << ": " << answer;
      if (request.poisoned) {
        EXPECT_NE(answer.find("not finite numbers"), std::string::npos) << answer;
      }
      const auto [at, first] = expected_.emplace(i, text_of(answer));
      if (!first) {
        EXPECT_EQ(at->second, text_of(answer)) << i;
      }
    }
  };
  ask_all();
  std::atomic<bool> stop = false;
  const auto run_clients = [&](double time) {
    stop = false;
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i)
      clients.emplace_back([this, i, &stop] { run_client(i, stop); });
    std::this_thread::sleep_for(std::chrono::duration<double>(time));
    faults::fail_one_in(0);
    stop = true;
    for (std::thread& client : clients) client.join();
    return idle();
  };
  run_clients(std::max(1.0, seconds / 10));  // until caches have reached their size
  const size_t before = mallinfo2().uordblks;
  const uint64_t failed = faults::failed_allocations();
  engine::Metrics metrics;
  // Slow builds need longer for enough faults.
  for (int i = 0; i < 10 && (i == 0 || faults::failed_allocations() - failed <= 20); ++i) {
    faults::fail_one_in(kOneIn);
    metrics = run_clients(seconds);
  }
  const uint64_t faults = faults::failed_allocations() - failed;
  const size_t after = mallinfo2().uordblks;
  fmt::print("{} faults: {} right, {} failed, {} refused, {} closed; memory {} to {} bytes\n",
             faults, ends_.right.load(), ends_.failed.load(), ends_.refused.load(),
             ends_.closed.load(), before, after);
  EXPECT_GT(faults, 20u);
  EXPECT_GT(ends_.right, 20u);
  EXPECT_GT(ends_.failed, 0u);
  EXPECT_EQ(ends_.hung, 0u);
  EXPECT_EQ(ends_.wrong, 0u);
  // Requests whose connection could not even be sent an error are rare.
  EXPECT_LT(ends_.closed, (ends_.right + ends_.failed + ends_.refused) / 20 + 5);
  EXPECT_EQ(metrics.running + metrics.waiting + metrics.preempted, 0u);
  EXPECT_EQ(metrics.kv.sequences, 0u);
  EXPECT_EQ(open_connections(), 1);
  EXPECT_LT(after, before + (size_t{4} << 20));
  ask_all();
}

// The first allocation of the exporter's thread is the batch.
TEST(TraceFaults, WithoutMemoryForABatchItsSpansAreDroppedAndTheNextAreSent) {
  const faults::Spared spared;
  OtlpOptions options = read_otlp_address("http://127.0.0.1:1").value();  // no server listens there
  options.pause = std::chrono::milliseconds(0);
  OtlpExporter exporter(std::move(options));
  const auto counted = [&] {
    const SpanCounts counts = exporter.counts();
    return counts.sent + counts.failed + counts.dropped;
  };
  for (uint64_t i = 1; i <= 3; ++i) {
    faults::fail_nth(1);
    exporter.add(RequestFacts());
    while (counted() < i) std::this_thread::yield();
    faults::fail_nth(0);
  }
  EXPECT_EQ(exporter.counts().dropped, 3u);
  exporter.add(RequestFacts());
  while (counted() < 4) std::this_thread::yield();
  EXPECT_EQ(exporter.counts().failed, 1u);
}

TEST(ResponseFaults, AResponseThatFindsNoMemoryTakesNoneOfTheStoresRoom) {
  ResponseStore store(100'000);
  size_t put = 0, failed = 0;
  for (uint64_t nth = 1; nth <= 8; ++nth) {
    SCOPED_TRACE(nth);
    const std::string id = fmt::format("resp_{}", nth);
    std::string same = id;
    StoredResponse response = {.response = std::string(100, 'r'), .input = std::string(100, 'i')};
    faults::fail_nth(nth);
    bool thrown = false;
    try {
      EXPECT_TRUE(store.put(std::move(same), 1, std::move(response)));
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    faults::fail_nth(0);
    ++(thrown ? failed : put);
    EXPECT_EQ(store.find(id, 1) == nullptr, thrown);
    EXPECT_EQ(store.size(), put);
  }
  EXPECT_GT(failed, 1u);
  EXPECT_GT(put, 0u);
  for (uint64_t nth = 1; nth <= 8; ++nth) store.erase(fmt::format("resp_{}", nth), 1);
  EXPECT_EQ(store.bytes(), 0u);
}

// A reply of a request that has a record.
class NotedReply : public RecordedReply {
 public:
  NotedReply(Seen& seen, std::shared_ptr<RequestRecord> record)
      : RecordedReply(seen), record_(std::move(record)) {}
  std::shared_ptr<RequestRecord> record() const override { return record_; }

 private:
  const std::shared_ptr<RequestRecord> record_;
};

// The service tells a job's end again where telling it failed.
TEST(EmbeddingFaults, AnEndWithoutMemoryIsCountedOnceWhenItIsToldAgain) {
  ManualService service;
  Seen seen;
  const auto record = std::make_shared<RequestRecord>(RequestFacts());
  const Post at_once = [](const std::function<void()>& task) { task(); };
  TextsToEmbed texts = {.pooling = engine::Pooling::kMean, .field = "input"};
  texts.texts.push_back({1, 7});
  std::vector<uint64_t> tokens;
  embed(service, Threads{at_once, at_once, at_once}, std::move(texts),
        std::make_shared<NotedReply>(seen, record), [&](const ApiResult<Embeddings>& result) {
          tokens.push_back(result.ok() ? (*result).tokens : 0);
        });
  ASSERT_EQ(service.jobs.size(), 1u);
  const engine::JobOutcome outcome = {.prompt_tokens = 2, .error = {}, .embedding = {1, 2}};
  faults::fail_nth(1);
  EXPECT_THROW(service.jobs[0].on_end(outcome), std::bad_alloc);
  faults::fail_nth(0);
  EXPECT_TRUE(tokens.empty());
  service.jobs[0].on_end(outcome);
  EXPECT_EQ(tokens, std::vector<uint64_t>{2});
  EXPECT_EQ(record->facts().prompt_tokens, 2u);
}

}  // namespace
}  // namespace kvick::server
