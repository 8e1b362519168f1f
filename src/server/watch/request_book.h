#pragma once
// The requests of a server that run, and the last ones that ended. Each is noted where it comes,
// and where it ends: in the log, and as a trace.

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
  std::shared_ptr<EventLog> log;     // null: there is none
  std::shared_ptr<SpanSink> spans;   // null: none are wanted
  size_t most_ended = 100;           // that are kept to be looked at
  double pressure_seconds = 10;      // between lines that say how short memory is
  std::function<uint64_t()> random;  // of traces
  base::Clock clock = base::steady_seconds;
};

// What /metrics says of all this.
struct WatchCounts {
  uint64_t dropped_lines = 0;
  bool traces = false;  // they are exported
  SpanCounts spans = {};
  double started = 0;  // seconds since 1970
};

// All may be called from any thread.
class RequestBook : public std::enable_shared_from_this<RequestBook> {
 public:
  explicit RequestBook(BookOptions options);

  // The reply to use from now on. The request has ended once that is destroyed. facts: id, client,
  // method, route and generates.
  std::shared_ptr<Reply> begin(RequestFacts facts, const std::string& trace_parent,
                               std::shared_ptr<Reply> reply);
  // A request that was answered by its head alone.
  void refuse(RequestFacts facts, unsigned status);
  // Looks now and then at the engines' counts, and logs what requests have lost by want of memory.
  bool wants_pressure();
  void take_pressure(const engine::Metrics& metrics);

  std::vector<RequestFacts> running() const, ended() const;  // the oldest first
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
  engine::Metrics pressure_;  // as it was said last
};

}  // namespace kvick::server
