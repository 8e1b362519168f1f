#pragma once
// What a server keeps of a request for its log, /debug/requests and traces: numbers, times, and
// names that the server itself gave. It holds nothing of the prompt or the answer, and no key.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/service.h"
#include "server/request/error.h"

namespace kvick::server {

// A status that is never sent, for clients that left; nginx logs the same one.
inline constexpr unsigned kClientLeft = 499;

struct RequestFacts {
  std::string id, client;
  std::string method;      // "POST"
  std::string route;       // in the table of routes: "/v1/models/{id}"
  bool generates = false;  // the route submits jobs to the engine
  // The server's names. Empty model: not known yet; empty adapter: none.
  std::string model, adapter;
  int32_t priority = 0;
  uint64_t planned_tokens = 0;  // of all prompts, known before the engine counts them
  std::vector<engine::JobId> jobs;
  // The request's place in a trace, in hexadecimal. parent: the client's span, or empty.
  std::string trace, span, parent;
  bool traced = false;

  // began, ended: seconds of the server's clock. began_unix_ns: the arrival in nanoseconds since
  // 1970.
  double began = 0, ended = 0;
  int64_t began_unix_ns = 0;
  std::optional<double> first_text;
  engine::JobTimes times;  // of the job that ended first

  uint64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0, preemptions = 0;
  unsigned status = 0;  // 0: not answered yet
  std::string finish;   // why the first choice ended: "stop"
  // What was wrong. The sentence is kept only if it quotes nothing of the request.
  std::string error, error_code, error_field;

  // own_words: the sentence quotes nothing of the request.
  void fail(const ApiError& wrong, bool own_words);
  void add(const engine::JobOutcome& outcome);
};

// A shared record of a request. All calls are safe on any thread.
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
