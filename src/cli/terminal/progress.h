#pragma once
// Shows the progress of long work on stderr. On a terminal: one line that is redrawn, with a bar,
// the amount, the rate and the time left. Elsewhere: a plain line for each tenth done, at most one
// every five seconds, so that short work prints nothing and a log stays short. With --quiet:
// nothing.

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace kvick::cli {

enum class Unit { kBytes, kTokens, kRuns };
enum class ProgressMode { kBar, kLines, kSilent };

// Returns "98.4 MB" or "1,234 tokens" (powers of ten); append "/s" for a rate.
std::string amount_text(double amount, Unit unit);
// Returns "0:07", "12:34" or "1:02:03".
std::string duration_text(double seconds);

// The values that one line shows.
struct ProgressLine {
  std::string_view what;
  Unit unit = Unit::kBytes;
  uint64_t done = 0, total = 0;  // total 0: not known
  double rate = 0;               // units a second; 0: not known yet
  double elapsed_s = 0;
};
// Returns the line for a terminal of `width` columns. It is always narrower than the terminal, so
// that it cannot wrap. If there is no room, these are dropped in order: the bar, the rate, the
// amount, the end of the name.
std::string bar_line(const ProgressLine& line, int width, bool utf8);

// For one thread, and one piece of work at a time.
class Progress {
 public:
  using Clock = std::function<double()>;  // seconds from any fixed moment

  struct Style {
    ProgressMode mode = ProgressMode::kSilent;
    bool utf8 = false;
    std::function<int()> width;  // of the terminal, for kBar
  };

  Progress(std::ostream& out, Style style, Clock clock);
  ~Progress();  // ends the line if the work is unfinished, as after an exception
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Begins a piece of work. `done` units were done before and do not count in the rate.
  void start(std::string_view what, Unit unit, uint64_t total, uint64_t done = 0);
  // Cheap enough to call for every buffer: draws at most ten times a second.
  void update(uint64_t done);
  // Starts the bar at the first call and updates it at later ones, until finish(). For work that
  // may be refused before it begins: no bar appears then.
  void report(std::string_view what, Unit unit, uint64_t done, uint64_t total);
  void finish();  // does nothing if no work was started
  // Prints a line for the user above the bar, unless quiet.
  void note(std::string_view line);

 private:
  void draw();
  void erase();
  void measure(double now);

  std::ostream& out_;
  Style style_;
  Clock clock_;
  bool active_ = false, drawn_ = false;
  std::string what_;
  Unit unit_ = Unit::kBytes;
  uint64_t done_ = 0, total_ = 0;
  double started_ = 0, drawn_at_ = 0, line_at_ = 0;
  uint64_t tenths_ = 0;
  double rate_ = 0, rate_at_ = 0;  // smoothed over a few seconds
  uint64_t rate_done_ = 0;
};

// Returns a Progress for stderr, in the mode that fits the terminal and --quiet.
Progress stderr_progress(bool quiet);

}  // namespace kvick::cli
