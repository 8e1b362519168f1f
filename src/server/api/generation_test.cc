// Which threads write a request's answer. The tests run the tasks of each thread themselves.

#include "server/api/generation.h"

#include <deque>
#include <gtest/gtest.h>

#include "server/api/api.h"
#include "server/testing/server.h"

namespace kvick::server {
namespace {

// What clients have seen, in order: "A: 200", "B: event", "B: end".
using Log = std::vector<std::string>;

class LoggedReply : public Reply {
 public:
  LoggedReply(Log& log, std::string name) : log_(log), name_(std::move(name)) {}
  void send(HttpResponse response) override {
    log_.push_back(fmt::format("{}: {}", name_, response.status));
    body = std::move(response.body);
  }
  void begin_events(StreamHead head) override { long_events = head.long_events; }
  void event(std::string_view) override { log_.push_back(name_ + ": event"); }
  void end_events() override { log_.push_back(name_ + ": end"); }
  void on_gone(std::function<void()>) override {}
  std::shared_ptr<RequestRecord> record() const override { return noted; }
  std::string body;
  size_t long_events = 0;  // of a stream
  const std::shared_ptr<RequestRecord> noted = std::make_shared<RequestRecord>(RequestFacts());

 private:
  Log& log_;
  std::string name_;
};

class HookedService : public ManualService {
 public:
  base::Result<engine::JobId, engine::Refusal> submit(engine::Job job) override {
    if (before_submit) before_submit();
    return ManualService::submit(std::move(job));
  }
  std::function<void()> before_submit;
};

class AnswerThreads : public testing::Test {
 protected:
  AnswerThreads() {
    const auto into = [](Queue& queue) {
      return [&queue](std::function<void()> task) { queue.push_back(std::move(task)); };
    };
    api_.emplace(test_engine(), service_,
                 ApiOptions{.model = "tiny",
                            .keys = ApiKeys(),
                            .constraint = [](const Json&) { return base::fail("none"); },
                            .random = [] { return 1; },
                            .unix_time = [] { return 1000; },
                            .report = {}},
                 Threads{.network = into(network_),
                         .background = [](const std::function<void()>& task) { task(); },
                         .answers = into(answers_)},
                 counters_);
  }
  using Queue = std::deque<std::function<void()>>;
  static bool run_one(Queue& queue) {
    if (queue.empty()) return false;
    const auto task = std::move(queue.front());
    queue.pop_front();
    task();
    return true;
  }
  static void run(Queue& queue) {
    while (run_one(queue)) {
    }
  }
  std::shared_ptr<LoggedReply> call(std::string name, HttpRequest request) {
    const auto reply = std::make_shared<LoggedReply>(log_, std::move(name));
    api_->handle(std::move(request), reply);
    return reply;
  }
  std::shared_ptr<LoggedReply> complete(std::string name, std::string body) {
    return call(std::move(name), {.method = "POST",
                                  .target = "/v1/completions",
                                  .content_type = "application/json",
                                  .body = std::move(body)});
  }
  // Answers all choices of a job with many reported tokens, and ends it.
  void answer(size_t job) {
    engine::Job& taken = service_.jobs.at(job);
    const engine::TokenReport report = {.chosen = {5, -1}, .top = {{5, -1}, {6, -2}}};
    for (uint32_t choice = 0; choice < taken.choices; ++choice)
      taken.on_piece({.choice = choice,
                      .text = fmt::format("c{}", choice),
                      .tokens = std::vector(100, report),
                      .finish = engine::Finish::kLength});
    taken.on_end({});
  }

  HookedService service_;
  NetworkCounters counters_;
  Queue network_, answers_;
  Log log_;
  std::optional<Api> api_;
};

TEST_F(AnswerThreads, LeaveTheNetworkFreeWhileAnAnswerIsWritten) {
  complete("A", R"({"prompt":"x","n":64,"logprobs":20,"echo":true})");
  answer(0);
  run(network_);  // all tasks that the network's thread has by now
  call("B", {.method = "GET", .target = "/health"});
  call("C", {.method = "GET", .target = "/metrics"});
  run(network_);
  EXPECT_EQ(log_, (Log{"B: 200", "C: 200"}));
  run(answers_);
  EXPECT_EQ(log_.size(), 2U);
  run(network_);
  EXPECT_EQ(log_.back(), "A: 200");
}

TEST_F(AnswerThreads, WriteALongAnswerAChoiceAtATimeSoThatOthersGetTheirTurn) {
  const auto whole = complete("A", R"({"prompt":"x","n":3,"logprobs":2})");
  complete("B", R"({"prompt":"x","stream":true})");
  run(answers_), run(network_);
  answer(0);
  run_one(answers_);  // A's first choice
  service_.jobs.at(1).on_piece({.text = "hello"});
  while (log_.empty() && run_one(answers_)) run(network_);
  EXPECT_EQ(log_, Log{"B: event"});
  run(answers_), run(network_);
  ASSERT_EQ(log_.back(), "A: 200");
  const Json answer = Json::parse(whole->body);
  ASSERT_EQ(answer["choices"].size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answer["choices"][i]["text"], fmt::format("c{}", i));
    EXPECT_EQ(answer["choices"][i]["logprobs"]["tokens"].size(), 100U);
  }
  EXPECT_EQ(answer["usage"]["total_tokens"], 0);
}

TEST_F(AnswerThreads, SendTheEventsOfAStreamInTheirOrder) {
  complete("A", R"({"prompt":"x","stream":true})");
  const engine::Job& job = service_.jobs.at(0);
  for (int i = 0; i < 3; ++i) {
    job.on_piece({.text = "x"});
    run(answers_);
  }
  job.on_piece({.text = "y", .finish = engine::Finish::kEnd});
  job.on_end({});
  run(answers_), run(network_);
  EXPECT_EQ(log_, (Log{"A: event", "A: event", "A: event", "A: event", "A: end"}));
}

// The engine gives the prompt's reports to one choice after the other, before any answer's text.
TEST_F(AnswerThreads, SendTheReportsOfAPromptToAllChoicesInOneEvent) {
  complete("A", R"({"prompt":"x","n":3,"stream":true,"echo":true,"logprobs":2})");
  run(answers_), run(network_);
  log_.clear();
  const engine::Job& job = service_.jobs.at(0);
  const auto report = [&](uint32_t choice) {
    const engine::TokenReport one = {.chosen = {5, -1}, .top = {{5, -1}, {6, -2}}};
    job.on_piece({.choice = choice,
                  .text = {},
                  .token = {},
                  .tokens = std::vector(5000, one),
                  .of_prompt = true,
                  .finish = {}});
    run(answers_), run(network_);
  };
  report(0), report(1);
  EXPECT_TRUE(log_.empty());
  report(2);
  EXPECT_EQ(log_, Log{"A: event"});
  job.on_piece({.choice = 0, .text = "y"});
  run(answers_), run(network_);
  EXPECT_EQ(log_, (Log{"A: event", "A: event"}));
}

TEST_F(AnswerThreads, AnnounceALongEventForTheReportsOfEachPromptAndOneForTheEchoes) {
  const auto announced = [&](const char* body) {
    const auto reply = complete("A", body);
    run(answers_), run(network_);
    return reply->long_events;
  };
  EXPECT_EQ(announced(R"({"prompt":["x","y","z"],"stream":true,"logprobs":2})"), 0U);
  EXPECT_EQ(announced(R"({"prompt":["x","y","z"],"stream":true,"echo":true})"), 1U);
  EXPECT_EQ(announced(R"({"prompt":["x","y","z"],"n":2,"stream":true,"echo":true,"logprobs":2})"),
            4U);
}

TEST_F(AnswerThreads, SendTheReportsOfAPromptThatHaveComeIfItsJobFails) {
  complete("A", R"({"prompt":["x","y"],"n":2,"stream":true,"echo":true,"logprobs":2})");
  run(answers_), run(network_);
  log_.clear();
  service_.jobs.at(0).on_piece({.choice = 0,
                                .text = {},
                                .token = {},
                                .tokens = {{.chosen = {5, -1}, .top = {}}},
                                .of_prompt = true,
                                .finish = {}});
  run(answers_), run(network_);
  EXPECT_TRUE(log_.empty());
  service_.jobs.at(0).on_end(
      {.error = engine::Refusal{engine::Refusal::Why::kFailed, "broke", ""}});
  run(answers_), run(network_);
  EXPECT_EQ(log_, Log{"A: event"});
}

TEST_F(AnswerThreads, CountAJobOnceThatEndsBeforeTheNextOneIsSubmitted) {
  const auto end = [&](size_t job, uint32_t prompt_tokens) {
    service_.jobs.at(job).on_piece({.text = "x", .finish = engine::Finish::kEnd});
    service_.jobs.at(job).on_end(
        {.prompt_tokens = prompt_tokens, .generated_tokens = 1, .error = {}});
    run(answers_);
  };
  service_.before_submit = [&] {
    if (service_.jobs.size() == 1) end(0, 5);
  };
  const auto reply = complete("A", R"({"prompt":["x","y"]})");
  ASSERT_EQ(service_.jobs.size(), 2U);
  end(1, 7);
  run(network_);
  EXPECT_EQ(log_, Log{"A: 200"});
  EXPECT_EQ(Json::parse(reply->body)["usage"]["prompt_tokens"], 12);
  EXPECT_EQ(reply->noted->facts().prompt_tokens, 12U);
  EXPECT_EQ(reply->noted->facts().answer_tokens, 2U);
}

TEST_F(AnswerThreads, CancelTheOtherJobsOfARequestWhenOneFails) {
  for (const char* stream : {"false", "true"}) {
    SCOPED_TRACE(stream);
    log_.clear(), service_.jobs.clear(), service_.cancelled.clear();
    const auto reply =
        complete("A", fmt::format(R"({{"prompt":["x","y","z"],"stream":{}}})", stream));
    run(answers_);
    ASSERT_EQ(service_.jobs.size(), 3U);
    service_.jobs[1].on_end({.error = engine::Refusal{engine::Refusal::Why::kFailed, "broke", ""}});
    run(answers_), run(network_);
    EXPECT_EQ(service_.cancelled, (std::vector<size_t>{0, 2}));
    EXPECT_TRUE(log_.empty());
    service_.jobs[0].on_end({.error = engine::Refusal{engine::Refusal::Why::kFailed, "too", ""}});
    service_.jobs[2].on_end({});
    run(answers_), run(network_);
    EXPECT_EQ(service_.cancelled.size(), 2U);
    ASSERT_FALSE(log_.empty());
    EXPECT_EQ(log_.back(), stream == std::string("true") ? "A: end" : "A: 500");
    EXPECT_EQ(reply->noted->facts().error, "broke");
  }
}

// Uses real sockets and threads.
TEST(Answers, AreWrittenWhileTheServerAnswersOthers) {
  TestServer server({.answer_threads = 1});
  std::mutex writing;
  writing.lock();
  server.server().threads().answers([&] { const std::lock_guard wait(writing); });
  Client slow = server.client();
  slow.post("/v1/completions", R"({"prompt":"x","max_tokens":3,"n":64})");
  ASSERT_TRUE(server.service.wait_for_ends(1));
  for (const char* path : {"/health", "/metrics", "/v1/models", "/kv"}) {
    Client other = server.client();
    other.get(path);
    EXPECT_EQ(other.answer().status, 200) << path;
  }
  EXPECT_FALSE(slow.has_bytes());  // its answer needs the answers thread, which is blocked
  writing.unlock();
  EXPECT_EQ(Json::parse(slow.answer().body)["choices"].size(), 64U);
}

TEST(Answers, AreCancelledWithTheirClientThoughAllTheirThreadsAreBusy) {
  TestServer server({.answer_threads = 1});
  Client client = server.client();
  client.post("/v1/completions",
              R"({"prompt":"x","max_tokens":9,"stream":true,"cache_salt":"hold"})");
  client.read_until("w0");
  std::mutex writing;
  writing.lock();
  server.server().threads().answers([&] { const std::lock_guard wait(writing); });
  client.hang_up();
  EXPECT_TRUE(server.service.wait_for_cancellations(1));
  writing.unlock();
}

}  // namespace
}  // namespace kvick::server
