#pragma once
// An answer on the terminal as it grows: what the model says on stdout, and what it thinks before
// on stderr, dimmed if that is a terminal.

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

// Below an answer that was ended because it repeated itself.
inline constexpr const char* kLoopNote =
    "stopped: the answer repeats itself; --repeat-penalty 1.1 makes that rarer, and --allow-loops "
    "lets it go on";

struct PrinterOptions {
  bool raw = false;     // the text as it is: nothing is apart
  bool silent = false;  // nothing is printed, only kept
  ChatSettings::Thoughts thoughts = ChatSettings::Thoughts::kShow;  // all are kept
  bool markdown = false;                                            // see MarkdownWriter
};

class AnswerPrinter {
 public:
  AnswerPrinter(const engine::Engine& engine, std::span<const engine::Token> prompt,
                PrinterOptions options);

  void add(std::string_view text);
  void finish(bool whole);  // whole: the model ended it

  const std::string& thoughts() const { return thoughts_; }
  const std::string& answer() const { return answer_; }

 private:
  void show(const server::AnswerParts::Found& found);
  void show_thoughts(std::string_view text);
  void end_thoughts();
  void print(const std::string& text);

  PrinterOptions options_;
  std::optional<server::AnswerParts> parts_;  // none: raw
  std::optional<MarkdownWriter> markdown_;
  std::string thoughts_, answer_;
  bool dim_ = false;       // stderr takes colours
  bool thinking_ = false;  // the last that was printed are thoughts
};

}  // namespace kvick::cli
