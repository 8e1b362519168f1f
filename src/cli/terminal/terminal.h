#pragma once

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

}  // namespace kvick::cli
