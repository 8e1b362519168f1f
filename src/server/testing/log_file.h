#pragma once
// A log in memory that a test can read.

#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "server/watch/event_log.h"

namespace kvick::server {

class LogFile {
 public:
  explicit LogFile(LogFormat format = LogFormat::kJson, LogLevel most = LogLevel::kDebug)
      : file_(memfd_create("log", MFD_CLOEXEC)),
        log(std::make_shared<EventLog>(LogOptions{.format = format, .most = most, .file = file_})) {
  }
  ~LogFile() {
    log.reset();
    close(file_);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Ends the log and returns all of its text. No other thread may log any more.
  std::string text() {
    log.reset();
    std::string text(static_cast<size_t>(lseek(file_, 0, SEEK_END)), '\0');
    const ssize_t n = pread(file_, text.data(), text.size(), 0);
    return text.substr(0, static_cast<size_t>(n));
  }
  std::vector<Json> lines() {
    std::vector<Json> lines;
    const std::string all = text();
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find('\n', at);
      lines.push_back(Json::parse(all.substr(at, end - at)));
      at = end + 1;
    }
    return lines;
  }

 private:
  int file_;

 public:
  std::shared_ptr<EventLog> log;
};

}  // namespace kvick::server
