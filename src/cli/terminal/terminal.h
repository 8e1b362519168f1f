#pragma once

#include <string>
#include <string_view>

namespace kvick::cli {

// The abilities of a terminal at a file descriptor.
struct Terminal {
  int fd = -1;
  bool interactive = false;  // a terminal that understands cursor movement
  bool utf8 = false;         // the locale's character set is UTF-8

  // Returns the current width in columns (a window may be resized at any time); 80 if unknown.
  int width() const;
};

// Examines the descriptor and TERM, LC_ALL, LC_CTYPE and LANG.
Terminal terminal_of(int fd);

// Replaces each control character but tab and line end with '?', so that names from files cannot
// clear the screen or set the window's title.
std::string printable(std::string_view text);

}  // namespace kvick::cli
