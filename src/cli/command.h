#pragma once
// How a command joins the program: add_NAME(app, common, chosen) registers its options; when the
// command line names it, `chosen` becomes what runs it and returns the exit status: 0, or 2 for a
// user's mistake (a base::Error, printed as one line). Exceptions pass through to main, which
// prints one line and returns 1.

#include <functional>

namespace kvick::cli {

// Options that every command takes.
struct Common {
  bool json = false;   // exactly one JSON object on stdout; everything else on stderr
  bool quiet = false;  // no progress and no notes; errors still
};

using Run = std::function<int()>;

}  // namespace kvick::cli
