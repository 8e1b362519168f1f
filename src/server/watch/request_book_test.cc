// What the server notes of requests in its log and at /debug/requests.

#include <deque>
#include <gtest/gtest.h>

#include "server/testing/api.h"
#include "server/testing/log_file.h"

namespace kvick::server {
namespace {

class KeptSpans final : public SpanSink {
 public:
  void add(RequestFacts facts) noexcept override { all.push_back(std::move(facts)); }
  SpanCounts counts() const override { return {.sent = all.size()}; }
  std::vector<RequestFacts> all;
};

class WatchTest : public ApiTest {
 protected:
  void SetUp() override {
    seconds_ = 5.25;
    watch({});
  }
  void watch(BookOptions options) {
    options.log = file_.log;
    options.random = [n = uint64_t{0}]() mutable { return n += 2; };
    options.clock = [] { return 5.0; };
    book_ = std::make_shared<RequestBook>(std::move(options));
    make([&](ApiOptions& api) {
      api.book = book_;
      api.debug = true;
      api.keys = ApiKeys();
    });
  }
  void TearDown() override { end(); }
  // Ends all logging: the log writes into a file that this test owns.
  void end() {
    api_.reset();
    book_.reset();
    service_.jobs.clear();
  }
  std::vector<Json> log() {
    end();
    return file_.lines();
  }
  void ask(Seen& seen, const char* body, const std::string& trace_parent = "") {
    call(seen, {.method = "POST",
                .target = "/v1/chat/completions",
                .content_type = "application/json",
                .body = body,
                .address = "10.0.0.7",
                .id = "request-1",
                .trace_parent = trace_parent});
  }

  LogFile file_;
  std::shared_ptr<RequestBook> book_;
};

engine::JobOutcome outcome() {
  engine::JobOutcome outcome = {.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = 3};
  outcome.times.submitted = 5.0;
  outcome.times.started = 5.25;
  outcome.times.preemptions = 1;
  return outcome;
}

TEST_F(WatchTest, LogsTheEndOfARequestWithItsNumbers) {
  Seen seen;
  ask(seen, kHello);
  EXPECT_EQ(service_.jobs.at(0).request, "request-1");
  answer(0);
  service_.jobs[0].on_end(outcome());
  EXPECT_EQ(seen.response.status, 200U);
  const std::vector<Json> lines = log();
  ASSERT_EQ(lines.size(), 1U);
  Json line = lines[0];
  line.erase("time");
  EXPECT_EQ(line, Json::parse(R"({"level":"info","event":"request",
    "message":"POST /v1/chat/completions","id":"request-1","status":200,"model":"tiny",
    "prompt_tokens":5,"cached_tokens":2,"answer_tokens":3,"preemptions":1,"queue_ms":250.0,
    "first_token_ms":250.0,"total_ms":0.0,"finish":"stop","client":"10.0.0.7"})"));
}

// The log never shows a client's text or key, whatever the error and whichever field holds them.
TEST_F(WatchTest, LogsNoTextOfRequestsAndNoKey) {
  make([&](ApiOptions& api) {
    api.book = book_;
    api.strict_fields = true;
    api.report = nullptr;
  });
  std::deque<Seen> seen;
  for (const char* body :
       {R"({"messages":[{"role":"user","content":"SECRET"}]})", R"({"messages":"SECRET"})",
        R"({"messages":[{"role":"SECRET","content":"a"}]})", R"({"messages":[SECRET]})",
        R"({"model":"SECRET","messages":[{"role":"user","content":"a"}]})",
        R"({"messages":[{"role":"user","content":"a"}],"temperature":"SECRET"})",
        R"({"messages":[{"role":"user","content":"a"}],"stop":{"SECRET":1}})",
        R"({"messages":[{"role":"user","content":"a"}],"tool_choice":"SECRET"})",
        R"({"messages":[{"role":"user","content":"refuse me"}]})"}) {
    call(seen.emplace_back(), {.method = "POST",
                               .target = "/v1/chat/completions",
                               .authorization = "Bearer SECRET",
                               .content_type = "application/json",
                               .body = body});
  }
  EXPECT_TRUE(api_->refuses({.method = "GET", .target = "/SECRET"}));
  get("/v1/models/SECRET");
  service_.jobs.at(0).on_piece({.text = "SECRET", .finish = engine::Finish::kEnd});
  service_.jobs[0].on_end(outcome());
  const std::vector<Json> lines = log();
  EXPECT_EQ(lines.size(), 11U);
  for (const Json& line : lines) EXPECT_EQ(to_text(line).find("SECRET"), std::string::npos) << line;
}

TEST_F(WatchTest, SaysInItsOwnWordsWhyARequestWasRefusedOrFailed) {
  service_.refuse_from = 0;
  service_.refusal = {engine::Refusal::Why::kBusy, "256 requests are waiting already", ""};
  Seen seen;
  ask(seen, kHello);
  EXPECT_EQ(seen.response.status, 503U);
  service_.refuse_from = SIZE_MAX;
  Seen broken;
  ask(broken, kHello);
  engine::JobOutcome failed = outcome();
  failed.error = engine::Refusal{engine::Refusal::Why::kFailed, "the engine failed", ""};
  service_.jobs.at(0).on_end(failed);
  const std::vector<Json> lines = log();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["error"], "256 requests are waiting already");
  EXPECT_EQ(lines[0]["level"], "info");
  EXPECT_EQ(lines[1]["error"], "the engine failed");
  EXPECT_EQ(lines[1]["level"], "warning");
  EXPECT_EQ(lines[1]["error_code"], "engine_failed");
}

TEST_F(WatchTest, CountsWhatAClientWasAnsweredThatLeft) {
  Seen seen;
  ask(seen, kHello);
  answer(0);
  seen.gone();
  EXPECT_EQ(service_.cancelled, std::vector<size_t>{0});
  service_.jobs[0].on_end(outcome());
  service_.jobs.clear();
  const std::vector<Json> lines = log();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["status"], 499);
  EXPECT_EQ(lines[0]["answer_tokens"], 3);
}

TEST_F(WatchTest, LogsWhatOnlyAsksForItsStateWhereEverythingIsLogged) {
  get("/health");
  const std::vector<Json> lines = log();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["level"], "debug");
}

TEST_F(WatchTest, SumsUpWhatMemoryCost) {
  book_->take_pressure({});
  engine::Metrics metrics;
  metrics.refused = 2;
  metrics.swaps = 3, metrics.recomputations = 4;
  book_->take_pressure(metrics);
  book_->take_pressure(metrics);
  metrics.kv.evicted_bytes = 9;
  book_->take_pressure(metrics);
  const std::vector<Json> lines = log();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["event"], "pressure");
  EXPECT_EQ(lines[0]["refused"], 2);
  EXPECT_EQ(lines[0]["preempted"], 7);
  EXPECT_FALSE(lines[0].contains("evicted_bytes"));
  EXPECT_EQ(lines[1]["evicted_bytes"], 9);
}

TEST_F(WatchTest, ShowsRequestsThatRunAndThatEnded) {
  Seen seen;
  ask(seen, kHello);
  Json shown = get("/debug/requests").json();
  ASSERT_EQ(shown["running"].size(), 1U) << shown;
  EXPECT_EQ(shown["running"][0]["id"], "request-1");
  EXPECT_EQ(shown["running"][0]["model"], "tiny");
  EXPECT_EQ(shown["running"][0]["state"], "waiting");
  EXPECT_GT(shown["running"][0]["prompt_tokens"], 0);
  EXPECT_TRUE(shown["ended"].empty());
  answer(0);
  service_.jobs[0].on_end(outcome());
  shown = get("/debug/requests").json();
  EXPECT_TRUE(shown["running"].empty());
  ASSERT_EQ(shown["ended"].size(), 1U);
  EXPECT_EQ(shown["ended"][0]["answer_tokens"], 3);
  EXPECT_EQ(shown["ended"][0]["route"], "/v1/chat/completions");
}

TEST_F(WatchTest, ShowsNoRequestsUnlessItShallAndToNobodyWithoutTheKey) {
  make([&](ApiOptions& api) { api.book = book_; });
  EXPECT_EQ(get("/debug/requests").response.status, 404U);
  make([&](ApiOptions& api) {
    api.book = book_;
    api.debug = true;
    api.keys = ApiKeys({"key"});
  });
  EXPECT_EQ(get("/debug/requests").response.status, 401U);
}

TEST_F(WatchTest, GoesOnWithTheTraceOfTheClient) {
  const auto spans = std::make_shared<KeptSpans>();
  watch({.spans = spans});
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  for (const std::string& header : {std::string(), "00-" + trace + "-b7ad6b7169203331-01",
                                    "00-" + trace + "-b7ad6b7169203331-00"}) {
    Seen seen;
    ask(seen, kHello, header);
    const size_t job = service_.jobs.size() - 1;
    answer(job);
    service_.jobs[job].on_end(outcome());
    ASSERT_EQ(seen.response.headers.back().first, "traceparent");
    EXPECT_EQ(seen.response.headers.back().second.find(trace) != std::string::npos,
              !header.empty());
  }
  ASSERT_EQ(spans->all.size(), 2U);
  EXPECT_EQ(spans->all[0].trace.size(), 32U);
  EXPECT_EQ(spans->all[0].parent, "");
  EXPECT_EQ(spans->all[1].trace, trace);
  EXPECT_EQ(spans->all[1].parent, "b7ad6b7169203331");
}

}  // namespace
}  // namespace kvick::server
