#include "cli/terminal/markdown.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace kvick::cli {
namespace {

constexpr size_t kLongestHeading = 6;  // marks

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
// Bytes of letters beyond ASCII count too.
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F; }

}  // namespace

std::string MarkdownWriter::push(std::string_view text) {
  pending_ += text;
  std::string out;
  while (step(false, out)) continue;
  pending_.erase(0, at_);
  at_ = 0;
  return out;
}

std::string MarkdownWriter::finish() {
  std::string out;
  while (step(true, out)) continue;
  pending_.clear();
  at_ = 0;
  fenced_ = fence_line_ = heading_ = false;
  code_ = 0;
  bold_ = italic_ = 0;
  put_style(out);
  return out;
}

bool MarkdownWriter::step(bool last, std::string& out) {
  if (rest().empty()) return false;
  if (line_begins_) return begin_line(last, out);
  const char c = rest()[0];
  if (c == '\n') {
    end_line(out);
    return true;
  }
  if (!fenced_ && (c == '`' || code_ > 0)) return take_code(last, out);
  if (!fenced_ && (c == '*' || c == '_')) return take_emphasis(last, out);
  if (!fenced_ && c == '\\') {
    if (rest().size() == 1 && !last) return false;
    // A backslash makes the next mark a plain character.
    if (rest().size() > 1 && std::ispunct(static_cast<unsigned char>(rest()[1]))) ++at_;
  }
  put(rest().substr(0, 1), out);
  before_ = rest()[0];
  ++at_;
  return true;
}

void MarkdownWriter::end_line(std::string& out) {
  heading_ = fence_line_ = false;
  code_ = 0;
  bold_ = italic_ = 0;
  put_style(out);
  out += '\n';
  before_ = '\n';
  line_begins_ = true;
  ++at_;
}

bool MarkdownWriter::begin_line(bool last, std::string& out) {
  const std::string_view text = rest();
  const size_t indent = std::min(text.find_first_not_of(' '), text.size());
  const std::string_view mark = text.substr(indent);
  if (mark.empty() && !last) return false;
  if (mark.starts_with("```")) return begin_fence(last, out);
  if (std::string_view("```").starts_with(mark) && !mark.empty() && !last) return false;
  size_t taken = indent;
  std::string shown(indent, ' ');
  if (!fenced_ && mark.starts_with('#')) {
    const size_t count = std::min(mark.find_first_not_of('#'), mark.size());
    if (count == mark.size() && !last) return false;
    if (count < mark.size() && count <= kLongestHeading && mark[count] == ' ') {
      heading_ = true;
      taken += count + 1;
    }
  } else if (!fenced_ &&
             (mark.starts_with('-') || mark.starts_with('*') || mark.starts_with('+'))) {
    if (mark.size() == 1 && !last) return false;
    if (mark.size() > 1 && mark[1] == ' ') {
      shown += utf8_ ? "\xE2\x80\xA2 " : "- ";
      taken += 2;
    }
  }
  line_begins_ = false;
  if (!shown.empty()) put(shown, out);
  before_ = ' ';
  at_ += taken;
  return true;
}

// Takes the whole line of a fence, which is printed dim.
bool MarkdownWriter::begin_fence(bool last, std::string& out) {
  const size_t end = rest().find('\n');
  if (end == std::string_view::npos && !last) return false;
  fenced_ = !fenced_;
  fence_line_ = true;
  const size_t length = std::min(end, rest().size());
  put(rest().substr(0, length), out);
  at_ += length;
  line_begins_ = false;
  return true;
}

size_t MarkdownWriter::run() const {
  return std::min(rest().find_first_not_of(rest()[0]), rest().size());
}

bool MarkdownWriter::take_code(bool last, std::string& out) {
  if (rest()[0] != '`') {
    put(rest().substr(0, 1), out);
    before_ = rest()[0];
    ++at_;
    return true;
  }
  const size_t count = run();
  if (count == rest().size() && !last) return false;
  if (code_ == 0)
    code_ = count;
  else if (code_ == count)
    code_ = 0;
  else
    put(rest().substr(0, count), out);
  before_ = '`';
  at_ += count;
  return true;
}

bool MarkdownWriter::take_emphasis(bool last, std::string& out) {
  const size_t count = run();
  if (count == rest().size() && !last) return false;
  const char next = count < rest().size() ? rest()[count] : '\n';
  turn(rest()[0], count, next, out);
  before_ = rest()[0];
  at_ += count;
  return true;
}

// Turns styles on or off: two marks bold, one italic, three both. Marks between spaces, and marks
// inside a word that do not end a style, are text: 2 * 3, 2*3, snake_case.
void MarkdownWriter::turn(char mark, size_t count, char next, std::string& out) {
  const bool inner = is_word(before_) && is_word(next);
  const bool open = bold_ == mark || italic_ == mark;
  const bool may_open = !is_space(next) && !inner;
  const bool may_close = !is_space(before_) && (!inner || (mark == '*' && open));
  while (count > 0) {
    if (count >= 2 && bold_ == mark && may_close) {
      bold_ = 0;
      count -= 2;
    } else if (italic_ == mark && may_close) {
      italic_ = 0;
      --count;
    } else if (count >= 2 && count <= 3 && bold_ == 0 && may_open) {
      bold_ = mark;
      count -= 2;
    } else if (count == 1 && italic_ == 0 && may_open) {
      italic_ = mark;
      --count;
    } else {
      put(std::string(count, mark), out);
      count = 0;
    }
  }
}

void MarkdownWriter::put(std::string_view text, std::string& out) {
  put_style(out);
  for (const char c : text)
    if (!is_control(c)) out += c;
}

void MarkdownWriter::put_style(std::string& out) {
  std::string style;
  if (fence_line_) {
    style = ";2";
  } else {
    if (bold_ != 0 || heading_) style += ";1";
    if (italic_ != 0) style += ";3";
    if (code_ > 0 || fenced_) style += ";36";
  }
  if (style == style_) return;
  style_ = style;
  out += "\033[0" + style + "m";
}

}  // namespace kvick::cli
