#include "cli/terminal/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kvick::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first variable that is set and not empty decides, as in setlocale(3).
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value(environment(name));
    if (value.empty()) continue;
    return strcasestr(value.c_str(), "utf-8") || strcasestr(value.c_str(), "utf8");
  }
  return false;
}

// Returns the length in bytes of the UTF-8 character at the start of a text, by its first byte.
// Returns 1 if the other bytes are missing, as in names in another character set.
size_t character_bytes(std::string_view text) {
  const auto head = static_cast<unsigned char>(text[0]);
  const size_t bytes = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : head >= 0xc2 ? 2 : 1;
  if (text.size() < bytes) return 1;
  const std::string_view others = text.substr(1, bytes - 1);
  const bool whole =
      std::all_of(others.begin(), others.end(), [](char c) { return (c & 0xc0) == 0x80; });
  return whole ? bytes : 1;
}

// Returns whether a character is C0, DEL or C1. C1 may be one byte or UTF-8; some terminals take
// 0x9b for ESC [.
bool is_control(std::string_view character) {
  const auto head = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return (head < 0x20 && head != '\n' && head != '\t') || (head >= 0x7f && head < 0xa0);
  return head == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_bytes(text));
    out += is_control(character) ? "?" : character;
    text.remove_prefix(character.size());
  }
  return out;
}

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
