#include "cli/terminal/progress.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <iostream>
#include <unistd.h>
#include <utility>
#include <vector>

#include "cli/terminal/terminal.h"

namespace kvick::cli {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kLineSeconds = 5;
// Time constant of the rate: long enough to be readable, short enough to show a stall.
constexpr double kSmoothSeconds = 3;
constexpr int kShortestBar = 8, kLongestBar = 40;

size_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

// Returns the first `count` code points, each taken to be one column wide; control characters
// become '?'.
std::string clipped(std::string_view text, size_t count) {
  std::string out;
  size_t points = 0;
  for (char c : text) {
    if ((c & 0xC0) != 0x80 && ++points > count) break;
    out += (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) ? '?' : c;
  }
  return out;
}

std::string draw_bar(double fraction, int cells, bool utf8) {
  static constexpr std::array<std::string_view, 8> kEighths = {"",  "▏", "▎", "▍",
                                                               "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * cells * 8);
  const int full = eighths / 8;
  if (!utf8) return fmt::format("[{}{}]", std::string(full, '#'), std::string(cells - full, '-'));
  std::string out = "│";
  for (int i = 0; i < full; ++i) out += "█";
  out += kEighths[eighths % 8];
  out += std::string(cells - full - (eighths % 8 != 0), ' ');
  return out + "│";
}

// Returns "44.2 of 98.4 MB", with the unit once if both amounts have the same.
std::string amount_part(const ProgressLine& line) {
  std::string done = amount_text(static_cast<double>(line.done), line.unit);
  if (line.total == 0) return done;
  const std::string total = amount_text(static_cast<double>(line.total), line.unit);
  const std::string unit = done.substr(done.find(' '));
  if (total.ends_with(unit)) done.resize(done.size() - unit.size());
  return fmt::format("{} of {}", done, total);
}

// Returns the rate, then the time left, or the time taken if the total is not known.
std::string rate_part(const ProgressLine& line) {
  std::string out;
  if (line.rate > 0) out = amount_text(line.rate, line.unit) + "/s ";
  if (line.total == 0) return out + duration_text(line.elapsed_s);
  if (line.rate <= 0) return out + "-:--";
  return out + duration_text(static_cast<double>(line.total - std::min(line.done, line.total)) /
                             line.rate);
}

}  // namespace

std::string amount_text(double amount, Unit unit) {
  if (unit != Unit::kBytes) {
    const std::string_view name = unit == Unit::kTokens ? " tokens" : " runs";
    if (amount < 100) return fmt::format("{:.3g}{}", amount, name);
    std::string digits = fmt::format("{:.0f}", amount);
    for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
    return digits.append(name);
  }
  static constexpr std::array<std::string_view, 5> kPrefixes = {"B", "kB", "MB", "GB", "TB"};
  size_t prefix = 0;
  while (amount >= 999.95 && prefix + 1 < kPrefixes.size()) {
    amount /= 1000;
    ++prefix;
  }
  return prefix == 0 ? fmt::format("{:.0f} B", amount)
                     : fmt::format("{:.1f} {}", amount, kPrefixes[prefix]);
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 99 * 3600;  // more is not useful, and would make the line longer
  const auto whole = static_cast<int64_t>(std::clamp(std::ceil(seconds), 0.0, kLongest));
  const auto hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
                   : fmt::format("{}:{:02}", minutes, rest);
}

std::string bar_line(const ProgressLine& line, int width, bool utf8) {
  const size_t room = static_cast<size_t>(std::max(width - 1, 0));
  const double fraction =
      line.total == 0
          ? 0
          : std::min(1.0, static_cast<double>(line.done) / static_cast<double>(line.total));
  // A long name is cut in favour of the rest, down to a third of the line.
  const size_t name = std::min(code_points(line.what), std::max<size_t>(room / 3, 12));
  std::string tail;
  const auto add = [&](const std::string& part) {
    if (name + code_points(tail) + 2 + code_points(part) > room) return false;
    tail += "  " + part;
    return true;
  };
  if (line.total != 0) add(fmt::format("{:3.0f} %", std::floor(fraction * 100)));
  if (add(amount_part(line)) && add(rate_part(line)) && line.total != 0) {
    // Reserves columns by which amount and rate may grow, so that the bar keeps its length.
    const size_t reserved = std::max(code_points(tail), std::min<size_t>(room / 2, 46));
    const int left = static_cast<int>(room - std::min(room, name + reserved)) - 4;
    if (left >= kShortestBar)
      tail = "  " + draw_bar(fraction, std::min(left, kLongestBar), utf8) + tail;
  }
  return clipped(line.what,
                 std::min(room, std::max(name, room - std::min(room, code_points(tail))))) +
         tail;
}

Progress::Progress(std::ostream& out, Style style, Clock clock)
    : out_(out), style_(std::move(style)), clock_(std::move(clock)) {}

Progress::~Progress() {
  if (drawn_) out_ << '\n' << std::flush;
}

void Progress::start(std::string_view what, Unit unit, uint64_t total, uint64_t done) {
  finish();
  active_ = true;
  what_ = what;
  unit_ = unit;
  total_ = total;
  done_ = rate_done_ = done;
  started_ = line_at_ = rate_at_ = clock_();
  rate_ = 0;
  tenths_ = total == 0 ? 0 : done * 10 / total;
  draw();
}

void Progress::measure(double now) {
  const double passed = now - rate_at_;
  if (passed < kRedrawSeconds || done_ < rate_done_) return;
  const double rate_now = static_cast<double>(done_ - rate_done_) / passed;
  const double keep = rate_ == 0 ? 0 : std::exp(-passed / kSmoothSeconds);
  rate_ = keep * rate_ + (1 - keep) * rate_now;
  rate_at_ = now;
  rate_done_ = done_;
}

void Progress::update(uint64_t done) {
  done_ = done;
  if (!active_ || style_.mode == ProgressMode::kSilent) return;
  const double now = clock_();
  if (now - drawn_at_ < kRedrawSeconds) return;
  measure(now);
  draw();
}

void Progress::report(std::string_view what, Unit unit, uint64_t done, uint64_t total) {
  if (!active_) start(what, unit, total);
  update(done);
}

void Progress::draw() {
  drawn_at_ = clock_();
  const ProgressLine line{what_, unit_, done_, total_, rate_, drawn_at_ - started_};
  if (style_.mode == ProgressMode::kBar) {
    // Returns to the line's start, prints the line and erases the rest of a longer one.
    out_ << '\r' << bar_line(line, style_.width(), style_.utf8) << "\x1b[K" << std::flush;
    drawn_ = true;
  } else if (style_.mode == ProgressMode::kLines) {
    const uint64_t tenths = total_ == 0 ? tenths_ + 1 : done_ * 10 / total_;
    if (tenths <= tenths_ || drawn_at_ - line_at_ < kLineSeconds) return;
    tenths_ = tenths;
    line_at_ = drawn_at_;
    out_ << bar_line(line, 100, false) << std::endl;
  }
}

void Progress::erase() {
  if (drawn_) out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void Progress::finish() {
  active_ = false;
  erase();
}

void Progress::note(std::string_view line) {
  if (style_.mode == ProgressMode::kSilent) return;
  erase();
  out_ << line << std::endl;
  if (active_) draw();
}

Progress stderr_progress(bool quiet) {
  const Terminal terminal = terminal_of(STDERR_FILENO);
  Progress::Style style;
  style.mode = quiet                  ? ProgressMode::kSilent
               : terminal.interactive ? ProgressMode::kBar
                                      : ProgressMode::kLines;
  style.utf8 = terminal.utf8;
  style.width = [terminal] { return terminal.width(); };
  return Progress(std::cerr, std::move(style), [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  });
}

}  // namespace kvick::cli
