#pragma once
// An answer on the terminal as it grows: what the model says on stdout, and what it thinks before
// on stderr, dimmed if that is a terminal.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/engine.h"
#include "server/answer/answer_parts.h"

namespace kvick::cli {

struct PrinterOptions {
  bool raw = false;      // the text as it is: nothing is apart
  bool silent = false;   // nothing is printed, only kept
  bool thoughts = true;  // false: they are kept and not printed
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
  void end_thoughts();

  PrinterOptions options_;
  std::optional<server::AnswerParts> parts_;  // none: raw
  std::string thoughts_, answer_;
  bool dim_ = false;       // stderr takes colours
  bool thinking_ = false;  // the last that was printed are thoughts
};

}  // namespace kvick::cli
