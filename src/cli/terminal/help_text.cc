#include "cli/terminal/help_text.h"

#include <algorithm>
#include <vector>

namespace kvick::cli {
namespace {

// Returns the column where the text after an entry's name begins: 9 for "  bmc    contiguous".
// Without a name, the column where the line begins.
size_t text_column(std::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", begin);
  const bool entry = begin > 0 && gap != line.npos && line.find(' ', begin) == gap;
  return entry ? std::min(line.find_first_not_of(' ', gap), line.size()) : begin;
}

void wrap_line(std::string_view line, size_t columns, std::string& out) {
  const size_t indent = std::min(text_column(line), columns / 2);
  size_t room = columns, begin = indent;  // a break must come after the indent
  while (line.size() > room) {
    size_t end = line.rfind(' ', room);
    if (end == line.npos || end < begin) end = line.find(' ', room);
    if (end == line.npos) break;  // one long word
    out.append(line.substr(0, end)).append("\n").append(indent, ' ');
    line.remove_prefix(end + 1);
    room = columns - indent;
    begin = 0;
  }
  out.append(line);
}

// Returns the Damerau-Levenshtein distance, in which a swap of two neighbours counts once.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string wrapped(std::string_view text, size_t columns) {
  std::string out;
  while (true) {
    const size_t end = text.find('\n');
    wrap_line(text.substr(0, end), columns, out);
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string_view nearest(std::string_view word, std::span<const std::string> names) {
  std::string_view best;
  for (const std::string& name : names)
    if (word.size() >= 3 && name.starts_with(word) && (best.empty() || name.size() < best.size()))
      best = name;
  if (!best.empty()) return best;
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& name : names) {
    const size_t found = distance(word, name);
    if (found < least && found < word.size()) {
      least = found;
      best = name;
    }
  }
  return best;
}

}  // namespace kvick::cli
