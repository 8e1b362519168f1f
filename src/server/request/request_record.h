#pragma once
// What a server keeps of a request for its log, /debug/requests and traces: numbers, times, and
// names that the server itself gave. Nothing of the prompt or the answer, and no key.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/service.h"
#include "server/request/error.h"

namespace kvick::server {

inline constexpr unsigned kClientLeft = 499;  // a status that is never sent; nginx logs it too

struct RequestFacts {
  std::string id, client;
  std::string method;          // "POST"
  std::string route;           // of the table: "/v1/models/{id}"
  bool generates = false;      // the route has jobs of the engine
  std::string model, adapter;  // as the server calls them; empty: not known yet, none
  int32_t priority = 0;
  uint64_t planned_tokens = 0;  // of all prompts, before the engine has them
  std::vector<engine::JobId> jobs;
  // Where it stands in a trace, in hexadecimal; the parent is the client's span, or empty.
  std::string trace, span, parent;
  bool traced = false;

  // Seconds of the server's clock, and when it came, in nanoseconds since 1970.
  double began = 0, ended = 0;
  int64_t began_unix_ns = 0;
  std::optional<double> first_text;
  engine::JobTimes times;  // of the job that ended first

  uint64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0, preemptions = 0;
  unsigned status = 0;  // 0: not answered yet
  std::string finish;   // why its first choice ended: "stop"
  // What was wrong. The sentence only where it is the server's own: others quote the request.
  std::string error, error_code, error_field;

  // own_words: nothing of the request is in the sentence.
  void fail(const ApiError& wrong, bool own_words);
  void add(const engine::JobOutcome& outcome);
};

// On any thread.
class RequestRecord {
 public:
  explicit RequestRecord(RequestFacts facts) : facts_(std::move(facts)) {}
  template <typename Change>
  void change(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(facts_);
  }
  RequestFacts facts() const {
    const std::lock_guard lock(mutex_);
    return facts_;
  }

 private:
  mutable std::mutex mutex_;
  RequestFacts facts_;
};

}  // namespace kvick::server
