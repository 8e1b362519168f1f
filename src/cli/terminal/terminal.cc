#include "cli/terminal/terminal.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kvick::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first that is set and not empty decides, as setlocale(3) has it.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value(environment(name));
    if (value.empty()) continue;
    return strcasestr(value.c_str(), "utf-8") || strcasestr(value.c_str(), "utf8");
  }
  return false;
}

}  // namespace

int Terminal::width() const {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

Terminal terminal_of(int fd) {
  return {.fd = fd,
          .interactive = isatty(fd) == 1 && environment("TERM") != "dumb",
          .utf8 = locale_is_utf8()};
}

}  // namespace kvick::cli
