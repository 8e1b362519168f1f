#pragma once
// Renders Markdown for a terminal as it arrives: bold, italic, code, headings and lists.

#include <cstddef>
#include <string>
#include <string_view>

namespace kvick::cli {

// Prints all other text unchanged, without control characters. Holds text back only while it may be
// the beginning of a mark. A mark that is not closed ends with its line.
class MarkdownWriter {
 public:
  // utf8: the terminal can show a bullet.
  explicit MarkdownWriter(bool utf8) : utf8_(utf8) {}

  // Returns the text that can be printed now.
  std::string push(std::string_view text);
  // Returns the rest, and resets the terminal's style.
  std::string finish();

 private:
  // Each consumes some of the pending text. False: more text must arrive first.
  bool step(bool last, std::string& out);
  bool begin_line(bool last, std::string& out);
  bool begin_fence(bool last, std::string& out);
  bool take_code(bool last, std::string& out);
  bool take_emphasis(bool last, std::string& out);
  void end_line(std::string& out);

  std::string_view rest() const { return std::string_view(pending_).substr(at_); }
  size_t run() const;  // length of the run of the next character
  void turn(char mark, size_t count, char next, std::string& out);
  void put(std::string_view text, std::string& out);
  void put_style(std::string& out);

  bool utf8_;
  std::string pending_;
  size_t at_ = 0;  // bytes of pending_ that were consumed
  bool line_begins_ = true;
  bool fenced_ = false, fence_line_ = false, heading_ = false;
  size_t code_ = 0;             // number of backticks that opened the code; 0: none
  char bold_ = 0, italic_ = 0;  // the mark that opened the style; 0: off
  char before_ = '\n';          // the last character consumed
  std::string style_;           // the terminal's current style
};

}  // namespace kvick::cli
