#include "cli/chat/answer_printer.h"

#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/terminal/terminal.h"

namespace kvick::cli {
namespace {

constexpr const char *kDim = "\033[2m", *kPlain = "\033[0m";

size_t words_of(std::string_view text) {
  size_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t';
    words += !space && !inside ? 1 : 0;
    inside = !space;
  }
  return words;
}

}  // namespace

AnswerPrinter::AnswerPrinter(const engine::Engine& engine, std::span<const engine::Token> prompt,
                             PrinterOptions options)
    : options_(options), dim_(isatty(STDERR_FILENO) == 1), terminal_(isatty(STDOUT_FILENO) == 1) {
  if (!options.raw) parts_.emplace(engine.answer_syntax(), server::inside_thoughts(engine, prompt));
  if (options.markdown) markdown_.emplace(terminal_of(STDOUT_FILENO).utf8);
}

void AnswerPrinter::add(std::string_view text) {
  show(parts_ ? parts_->push(text) : server::AnswerParts::Found{{}, std::string(text)});
}

void AnswerPrinter::finish(bool whole) {
  if (parts_) show(parts_->finish(whole));
  end_thoughts();
  if (markdown_ && !options_.silent) print(markdown_->finish());
}

void AnswerPrinter::end_thoughts() {
  if (!thinking_) return;
  thinking_ = false;
  if (options_.thoughts == ChatSettings::Thoughts::kFold)
    fmt::print(stderr, " {} words)", words_of(thoughts_));
  fmt::print(stderr, "{}\n\n", dim_ ? kPlain : "");
}

void AnswerPrinter::show_thoughts(std::string_view text) {
  if (text.empty() || options_.thoughts == ChatSettings::Thoughts::kHide) return;
  const bool fold = options_.thoughts == ChatSettings::Thoughts::kFold;
  if (!thinking_) fmt::print(stderr, "{}{}", dim_ ? kDim : "", fold ? "(thinking ..." : "");
  thinking_ = true;
  if (!fold) fmt::print(stderr, "{}", dim_ ? printable(text) : std::string(text));
}

void AnswerPrinter::show(const server::AnswerParts::Found& found) {
  thoughts_ += found.reasoning;
  answer_ += found.content;
  if (options_.silent) return;
  show_thoughts(found.reasoning);
  if (found.content.empty()) return;
  end_thoughts();
  const std::string text = terminal_ ? printable(found.content) : found.content;
  print(markdown_ ? markdown_->push(text) : text);
}

void AnswerPrinter::print(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

}  // namespace kvick::cli
