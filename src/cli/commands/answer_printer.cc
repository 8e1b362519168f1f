#include "cli/commands/answer_printer.h"

#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

namespace kvick::cli {
namespace {

constexpr const char *kDim = "\033[2m", *kPlain = "\033[0m";

}  // namespace

AnswerPrinter::AnswerPrinter(const engine::Engine& engine, std::span<const engine::Token> prompt,
                             PrinterOptions options)
    : options_(options), dim_(isatty(STDERR_FILENO) == 1) {
  if (!options.raw) parts_.emplace(engine.answer_syntax(), server::inside_thoughts(engine, prompt));
}

void AnswerPrinter::add(std::string_view text) {
  show(parts_ ? parts_->push(text) : server::AnswerParts::Found{{}, std::string(text)});
}

void AnswerPrinter::finish(bool whole) {
  if (parts_) show(parts_->finish(whole));
  end_thoughts();
}

void AnswerPrinter::end_thoughts() {
  if (!thinking_) return;
  thinking_ = false;
  fmt::print(stderr, "{}\n\n", dim_ ? kPlain : "");
}

void AnswerPrinter::show(const server::AnswerParts::Found& found) {
  thoughts_ += found.reasoning;
  answer_ += found.content;
  if (options_.silent) return;
  if (!found.reasoning.empty() && options_.thoughts) {
    if (!thinking_ && dim_) fmt::print(stderr, "{}", kDim);
    thinking_ = true;
    fmt::print(stderr, "{}", found.reasoning);
  }
  if (found.content.empty()) return;
  end_thoughts();
  fmt::print("{}", found.content);
  std::fflush(stdout);
}

}  // namespace kvick::cli
