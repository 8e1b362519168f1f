#include "server/answer/answer_parts.h"

#include <gtest/gtest.h>

namespace kvick::server {
namespace {

// Returns "thoughts|answer" for a text that is pushed in pieces of piece_bytes bytes.
std::string split(const text::AnswerSyntax& syntax, bool inside, std::string_view text,
                  size_t piece_bytes) {
  AnswerParts parts(syntax, inside);
  std::string reasoning, content;
  const auto add = [&](const AnswerParts::Found& found) {
    reasoning += found.reasoning;
    content += found.content;
  };
  for (size_t at = 0; at < text.size(); at += piece_bytes)
    add(parts.push(text.substr(at, piece_bytes)));
  add(parts.finish(true));
  return reasoning + "|" + content;
}

TEST(AnswerParts, thoughts_between_marks_are_apart_however_the_text_is_cut) {
  const text::AnswerSyntax syntax;
  for (const size_t bytes : {1u, 2u, 3u, 7u, 100u}) {
    EXPECT_EQ(split(syntax, false, "<think>\nOne and one.\n</think>\n\nTwo.", bytes),
              "One and one.|Two.");
    EXPECT_EQ(split(syntax, true, "One and one.</think>Two.", bytes), "One and one.|Two.");
    EXPECT_EQ(split(syntax, false, "Just <b>two</b>.", bytes), "|Just <b>two</b>.");
    EXPECT_EQ(split(syntax, true, "cut off", bytes), "cut off|");
  }
}

TEST(AnswerParts, channels_are_apart_however_the_text_is_cut) {
  const text::AnswerSyntax syntax = {.channels = true};
  for (const size_t bytes : {1u, 5u, 100u})
    EXPECT_EQ(split(syntax, false,
                    "<|channel|>analysis<|message|>One and one.<|end|>"
                    "<|start|>assistant<|channel|>final<|message|>Two.",
                    bytes),
              "One and one.|Two.");
}

}  // namespace
}  // namespace kvick::server
