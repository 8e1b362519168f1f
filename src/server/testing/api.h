#pragma once
// The API without a network. Tasks for threads run immediately, on the caller's thread.

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "server/api/api.h"
#include "server/testing/service.h"

namespace kvick::server {

// What a client would see. Outlives the reply.
struct Seen {
  HttpResponse response;
  int answers = 0;
  std::string events, stream_type;
  Headers event_headers;
  bool streaming = false, ended = false;
  std::function<void()> gone;
  Json json() const { return Json::parse(response.body); }
  // Returns X-Kvick-Ignored-Fields of the answer or stream.
  std::string ignored() const {
    for (const auto& [name, value] : streaming ? event_headers : response.headers)
      if (name == "X-Kvick-Ignored-Fields") return value;
    return "";
  }
};

class RecordedReply : public Reply {
 public:
  explicit RecordedReply(Seen& seen) : seen_(seen) {}
  void send(HttpResponse response) override {
    seen_.response = std::move(response);
    ++seen_.answers;
  }
  void begin_events(StreamHead head) override {
    seen_.streaming = true;
    seen_.stream_type = head.type;
    seen_.event_headers = std::move(head.headers);
  }
  void event(std::string_view bytes) override { seen_.events += bytes; }
  void end_events() override { seen_.ended = true, ++seen_.answers; }
  void on_gone(std::function<void()> gone) override { seen_.gone = std::move(gone); }

 private:
  Seen& seen_;
};

class AnyText : public text::Constraint {
 public:
  std::unique_ptr<Constraint> clone() const override { return std::make_unique<AnyText>(); }
  void mask(std::span<float>) override {}
  void accept(int32_t) override {}
  bool complete() const override { return true; }
};

class ApiTest : public testing::Test {
 protected:
  void SetUp() override { make(); }
  void make(const std::function<void(ApiOptions&)>& change = {},
            const engine::Engine& engine = test_engine()) {
    const Post inline_post = [](const std::function<void()>& task) { task(); };
    ApiOptions options = {.model = "tiny",
                          .keys = ApiKeys(),
                          .constraint = [this](const Json& format) { return constrain(format); },
                          .random = [n = uint64_t{0}]() mutable { return ++n; },
                          .unix_time = [] { return 1000; },
                          .clock = [this] { return seconds_; },
                          .report = [this](const std::string& what) { reports_.push_back(what); }};
    if (change) change(options);
    api_ = std::make_unique<Api>(engine, service_, std::move(options),
                                 Threads{inline_post, inline_post, inline_post}, counters_);
  }
  base::Result<std::shared_ptr<const text::Constraint>> constrain(const Json& format) {
    constrained_ = format;
    if (format["type"] == "json_object")
      return std::shared_ptr<const text::Constraint>(std::make_shared<AnyText>());
    return base::fail("no such schema");
  }
  void call(Seen& seen, HttpRequest request) {
    api_->handle(std::move(request), std::make_shared<RecordedReply>(seen));
  }
  void post(Seen& seen, std::string path, const char* body) {
    call(seen, {.method = "POST",
                .target = std::move(path),
                .content_type = "application/json; charset=utf-8",
                .body = body});
  }
  Seen get(std::string path) {
    Seen seen;
    call(seen, {.method = "GET", .target = std::move(path)});
    return seen;
  }
  Seen posted(std::string path, const char* body) {
    Seen seen;
    post(seen, std::move(path), body);
    return seen;
  }
  // Writes a job's answer in two pieces; end() ends the job.
  void answer(size_t job, uint32_t choice = 0) {
    const engine::Job& taken = service_.jobs.at(job);
    taken.on_piece({.choice = choice, .text = "Hel"});
    taken.on_piece({.choice = choice, .text = "lo", .finish = engine::Finish::kEnd});
  }
  void end(size_t job) {
    service_.jobs.at(job).on_end(
        {.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = 3, .error = {}});
  }

  ManualService service_;
  NetworkCounters counters_;
  double seconds_ = 0;  // the time of the clock
  Json constrained_;
  std::vector<std::string> reports_;
  std::unique_ptr<Api> api_;
};

inline constexpr const char* kHello = R"({"messages":[{"role":"user","content":"Hi"}]})";

}  // namespace kvick::server
