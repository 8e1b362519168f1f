#pragma once
// Markdown as a terminal shows it, while it comes: bold, italic, code, headings and lists.

#include <cstddef>
#include <string>
#include <string_view>

namespace kvick::cli {

// Everything that is no mark of these is printed as it is, control characters left out. Text is
// held back only while it may still be the beginning of a mark, and a mark that nothing closes ends
// with its line.
class MarkdownWriter {
 public:
  // utf8: the terminal has a bullet.
  explicit MarkdownWriter(bool utf8) : utf8_(utf8) {}

  // What can be printed now.
  std::string push(std::string_view text);
  // The rest; the terminal's style is plain then.
  std::string finish();

 private:
  // Each takes something from the pending text; false: more of it has to come first.
  bool step(bool last, std::string& out);
  bool begin_line(bool last, std::string& out);
  bool begin_fence(bool last, std::string& out);
  bool take_code(bool last, std::string& out);
  bool take_emphasis(bool last, std::string& out);
  void end_line(std::string& out);

  std::string_view rest() const { return std::string_view(pending_).substr(at_); }
  size_t run() const;  // of the next character
  void turn(char mark, size_t count, char next, std::string& out);
  void put(std::string_view text, std::string& out);
  void put_style(std::string& out);

  bool utf8_;
  std::string pending_;
  size_t at_ = 0;  // what of it was taken
  bool line_begins_ = true;
  bool fenced_ = false, fence_line_ = false, heading_ = false;
  size_t code_ = 0;             // backticks that opened it; 0: none
  char bold_ = 0, italic_ = 0;  // the mark that opened it
  char before_ = '\n';          // the last character that was taken
  std::string style_;           // of the terminal now
};

}  // namespace kvick::cli
