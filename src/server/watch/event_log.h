#pragma once
// The server's log: one line an event, written by a thread of its own. Whoever logs never waits for
// whoever reads: lines that find no room are dropped and counted.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "server/request/json.h"

namespace kvick::server {

// kNotice: what an operator should know though all is well. kInfo: each request. kDebug: also those
// that only ask how the server is.
enum class LogLevel { kError, kWarning, kNotice, kInfo, kDebug };
// kText: "kvick: MESSAGE name=value ...". kJson: an object with time, level, event, message and the
// event's own fields.
enum class LogFormat { kText, kJson };
std::string_view log_level_name(LogLevel level);

struct LogOptions {
  LogFormat format = LogFormat::kText;
  LogLevel most = LogLevel::kNotice;  // what says less is left out
  int file = 2;                       // a descriptor, which stays open
  size_t most_lines = 4096;           // that wait
  // That the lines of its end may take where nobody reads them.
  std::chrono::milliseconds end_time{1000};
};

struct LogEvent {
  LogLevel level = LogLevel::kNotice;
  std::string_view name = "note";  // of static storage
  std::string message;             // may be empty in JSON's format only
  Json fields = Json::object();
};

class EventLog {
 public:
  explicit EventLog(LogOptions options);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  bool takes(LogLevel level) const { return level <= options_.most; }
  // On any thread.
  void write(LogEvent event) noexcept;
  uint64_t dropped() const { return dropped_; }

 private:
  struct Line {
    LogEvent event;
    std::chrono::system_clock::time_point time;
  };
  void work() noexcept;
  bool put(std::string_view bytes);
  bool wait_for_room();
  bool is_over();
  std::string text_of(const Line& line) const;
  void say_dropped();

  const LogOptions options_;
  std::mutex mutex_;
  std::condition_variable come_;
  std::deque<Line> lines_;
  bool ending_ = false;
  std::chrono::steady_clock::time_point end_;  // with ending_
  std::atomic<uint64_t> dropped_ = 0;
  uint64_t said_ = 0;  // of these, that a line told of
  std::thread thread_;
};

}  // namespace kvick::server
