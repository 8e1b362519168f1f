#pragma once
// The log of `kvick serve`, its records of requests, and traces.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/crash/crash_report.h"
#include "base/result.h"
#include "cli/options/command_line.h"
#include "server/watch/request_book.h"

namespace kvick::cli {

struct WatchFlags {
  server::LogFormat format = server::LogFormat::kText;
  std::string level;  // empty: notice for text, info for JSON lines
  bool debug = false;
  std::string otlp;  // empty: no traces
};

void add_watch_flags(const Command& command, WatchFlags& flags);

// Must outlive the server and its models.
struct Watch {
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { base::set_crash_notes(nullptr); }

  std::shared_ptr<server::EventLog> log;
  std::shared_ptr<server::RequestBook> book;
  base::CrashNotes crash_notes;
  uint32_t id_seed = 0;

  void say(std::string_view event, const std::string& what) const;
  // event must have static storage.
  std::function<void(const std::string&)> says(std::string_view event) const;
};

// Opens the log and the traces, and installs the crash report. Errors: an unknown level; an invalid
// address of the collector.
base::Result<std::unique_ptr<Watch>> open_watch(const WatchFlags& flags);

}  // namespace kvick::cli
