#pragma once
// The server's log: one line per event, written by its own thread. Callers never wait for the
// reader of the log: lines that find no room are dropped and counted.

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

// kNotice: news for the operator, though nothing is wrong. kInfo: each request. kDebug: status
// requests too.
enum class LogLevel { kError, kWarning, kNotice, kInfo, kDebug };
// kText: "kvick: MESSAGE name=value ...". kJson: an object with time, level, event, message and the
// fields of the event.
enum class LogFormat { kText, kJson };
std::string_view log_level_name(LogLevel level);

struct LogOptions {
  LogFormat format = LogFormat::kText;
  LogLevel most = LogLevel::kNotice;  // less important events are left out
  int file = 2;                       // file descriptor, which the log does not close
  size_t most_lines = 4096;           // limit on waiting lines
  // How long the destructor tries to write the last lines if nobody reads them.
  std::chrono::milliseconds end_time{1000};
};

struct LogEvent {
  LogLevel level = LogLevel::kNotice;
  std::string_view name = "note";  // must be in static storage
  std::string message;             // may be empty with LogFormat::kJson only
  Json fields = Json::object();
};

class EventLog {
 public:
  explicit EventLog(LogOptions options);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  bool takes(LogLevel level) const { return level <= options_.most; }
  // Safe on any thread.
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
  std::chrono::steady_clock::time_point end_;  // deadline of the last lines, valid if ending_
  std::atomic<uint64_t> dropped_ = 0;
  uint64_t said_ = 0;  // dropped lines that the log itself has reported
  std::thread thread_;
};

}  // namespace kvick::server
