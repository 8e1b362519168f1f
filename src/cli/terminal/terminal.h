#pragma once

#include <string>
#include <string_view>

namespace kvick::cli {

// What can be drawn on a file descriptor.
struct Terminal {
  int fd = -1;
  bool interactive = false;  // a terminal that understands cursor movement
  bool utf8 = false;         // the locale's character set is UTF-8

  // Columns now (a window may be resized at any time); 80 where it cannot be known.
  int width() const;
};

// Looks at the descriptor and at TERM, LC_ALL, LC_CTYPE and LANG.
Terminal terminal_of(int fd);

// For texts with names from files: '?' for each control character but tab and line end, so that no
// name clears the screen or sets the window's title.
std::string printable(std::string_view text);

}  // namespace kvick::cli
