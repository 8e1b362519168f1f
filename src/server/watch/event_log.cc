#include "server/watch/event_log.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/thread.h"

namespace kvick::server {
namespace {

// Time between checks for the end while nobody reads.
constexpr std::chrono::milliseconds kLook{100};
// A pipe that poll() calls writable takes at least this many bytes without blocking. O_NONBLOCK is
// no option: it would apply to every process that shares stderr.
constexpr size_t kMostAtOnce = PIPE_BUF;

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(milliseconds / 1000)),
                     milliseconds % 1000);
}

// Replaces control characters by spaces, so that an event stays on one line.
std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

bool is_plain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
}

std::string value_text(const Json& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>()))
    return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  constexpr std::string_view kNames[] = {"error", "warning", "notice", "info", "debug"};
  return kNames[static_cast<size_t>(level)];
}

EventLog::EventLog(LogOptions options) : options_(options) {
  thread_ = base::start_thread("the log", [this] { work(); });
}

EventLog::~EventLog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    end_ = std::chrono::steady_clock::now() + options_.end_time;
  }
  come_.notify_one();
  thread_.join();
}

void EventLog::write(LogEvent event) noexcept {
  if (!takes(event.level)) return;
  try {
    Line line = {std::move(event), std::chrono::system_clock::now()};
    const std::lock_guard lock(mutex_);
    if (lines_.size() < options_.most_lines) {
      lines_.push_back(std::move(line));
      come_.notify_one();
      return;
    }
  } catch (...) {  // no memory for the line
  }
  ++dropped_;
}

void EventLog::work() noexcept {
  while (true) {
    Line line;
    {
      std::unique_lock lock(mutex_);
      come_.wait(lock, [&] { return ending_ || !lines_.empty(); });
      if (lines_.empty()) return;
      line = std::move(lines_.front());
      lines_.pop_front();
    }
    try {
      if (!put(text_of(line))) ++dropped_;
      if (dropped_ > said_) say_dropped();
    } catch (...) {
      ++dropped_;
    }
  }
}

void EventLog::say_dropped() {
  const uint64_t all = dropped_;
  const bool said =
      put(text_of({{.level = LogLevel::kWarning,
                    .name = "dropped",
                    .message = fmt::format("{} lines of this log were dropped, because "
                                           "nobody read them in time",
                                           all - said_)},
                   std::chrono::system_clock::now()}));
  if (said) said_ = all;
}

std::string EventLog::text_of(const Line& line) const {
  const LogEvent& event = line.event;
  if (options_.format == LogFormat::kText) {
    std::string text = "kvick: " + on_one_line(event.message);
    for (const auto& [name, value] : event.fields.items())
      text += fmt::format(" {}={}", name, value_text(value));
    return text + '\n';
  }
  Json json = {{"time", time_text(line.time)},
               {"level", log_level_name(event.level)},
               {"event", event.name}};
  if (!event.message.empty()) json["message"] = event.message;
  json.update(event.fields);
  return to_text(json) + '\n';
}

bool EventLog::is_over() {
  const std::lock_guard lock(mutex_);
  return ending_ && std::chrono::steady_clock::now() >= end_;
}

// Returns false if nobody reads and the log must end.
bool EventLog::wait_for_room() {
  pollfd file = {.fd = options_.file, .events = POLLOUT, .revents = 0};
  while (true) {
    const bool over = is_over();
    const int ready = poll(&file, 1, over ? 0 : static_cast<int>(kLook.count()));
    // After a signal nothing is known: write() could wait for a reader without end.
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
    if (over) return false;
  }
}

// Returns false if the bytes cannot be written.
bool EventLog::put(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!wait_for_room()) return false;
    const ssize_t written =
        ::write(options_.file, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace kvick::server
