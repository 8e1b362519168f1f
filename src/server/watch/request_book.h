#pragma once
// The running requests of a server and the last ended ones. Each request is noted when it arrives
// and when it ends, and then goes to the log and to the traces.

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "engine/core/service_state.h"
#include "server/request/http.h"
#include "server/request/request_record.h"
#include "server/watch/event_log.h"
#include "server/watch/span_sink.h"

namespace kvick::server {

struct BookOptions {
  std::shared_ptr<EventLog> log;     // null: no log
  std::shared_ptr<SpanSink> spans;   // null: no traces
  size_t most_ended = 100;           // ended requests kept for /debug/requests
  double pressure_seconds = 10;      // seconds between log lines about memory pressure
  std::function<uint64_t()> random;  // for trace ids
  base::Clock clock = base::steady_seconds;
};

// The counts for /metrics.
struct WatchCounts {
  uint64_t dropped_lines = 0;
  bool traces = false;  // traces are exported
  SpanCounts spans = {};
  double started = 0;  // start of the server, seconds since 1970
};

// All calls are safe on any thread.
class RequestBook : public std::enable_shared_from_this<RequestBook> {
 public:
  explicit RequestBook(BookOptions options);

  // Begins a request and returns the reply that its handler must use. The request ends when that
  // reply is destroyed. facts: with id, client, method, route and generates set.
  std::shared_ptr<Reply> begin(RequestFacts facts, const std::string& trace_parent,
                               std::shared_ptr<Reply> reply);
  // Notes a request that was refused after its head.
  void refuse(RequestFacts facts, unsigned status);
  // wants_pressure() returns whether it is time for the next line about memory pressure; then
  // take_pressure() logs the refusals, preemptions and evictions since the last line.
  bool wants_pressure();
  void take_pressure(const engine::Metrics& metrics);

  std::vector<RequestFacts> running() const, ended() const;  // oldest first
  WatchCounts counts() const;
  double now() const { return options_.clock(); }

 private:
  class WatchedReply;
  using Records = std::list<std::shared_ptr<RequestRecord>>;
  void trace(RequestFacts& facts, const std::string& trace_parent);
  void end(Records::iterator record) noexcept;
  void log(const RequestFacts& facts) const;

  const BookOptions options_;
  const double started_;
  mutable std::mutex mutex_;
  Records running_;
  std::deque<RequestFacts> ended_;
  double pressure_at_ = 0;
  engine::Metrics pressure_;  // the counts at the last line
};

}  // namespace kvick::server
