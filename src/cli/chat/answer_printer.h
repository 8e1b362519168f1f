#pragma once
// Prints a growing answer on the terminal: the text on stdout, and the thoughts before it on
// stderr, dimmed if stderr is a terminal. Control characters are printed as "?" on a terminal; see
// printable().

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/chat/chat_settings.h"
#include "cli/terminal/markdown.h"
#include "engine/core/engine.h"
#include "server/answer/answer_parts.h"

namespace kvick::cli {

// Printed below an answer that was ended because it repeated itself.
inline constexpr const char* kLoopNote =
    "stopped: the answer repeats itself; --repeat-penalty 1.1 makes that rarer, and --allow-loops "
    "lets it go on";

struct PrinterOptions {
  bool raw = false;     // print the text as it is, thoughts included
  bool silent = false;  // print nothing, only keep the text
  ChatSettings::Thoughts thoughts = ChatSettings::Thoughts::kShow;  // thoughts are kept in any case
  bool markdown = false;                                            // see MarkdownWriter
};

class AnswerPrinter {
 public:
  AnswerPrinter(const engine::Engine& engine, std::span<const engine::Token> prompt,
                PrinterOptions options);

  void add(std::string_view text);
  void finish(bool whole);  // whole: the model ended the answer

  const std::string& thoughts() const { return thoughts_; }
  const std::string& answer() const { return answer_; }

 private:
  void show(const server::AnswerParts::Found& found);
  void show_thoughts(std::string_view text);
  void end_thoughts();
  void print(const std::string& text);

  PrinterOptions options_;
  std::optional<server::AnswerParts> parts_;  // empty if raw
  std::optional<MarkdownWriter> markdown_;
  std::string thoughts_, answer_;
  bool dim_ = false;       // stderr is a terminal
  bool terminal_ = false;  // stdout is a terminal
  bool thinking_ = false;  // the text printed last belongs to the thoughts
};

}  // namespace kvick::cli
