#pragma once
// What a model thinks before it answers, apart from the answer, as the text grows.

#include <string>
#include <string_view>

#include "text/template/answer_syntax.h"

namespace kvick::server {

class ThinkingParser {
 public:
  struct Found {
    std::string reasoning, content;
  };
  // inside: the prompt ended with the opening mark, so the answer begins with thoughts.
  ThinkingParser(const text::AnswerSyntax& syntax, bool inside);

  // What became certain. White space at the edges of the thoughts, and behind them, is dropped.
  Found push(std::string_view text);
  // The rest; the text has ended.
  Found finish();
  // The thoughts that began have not ended.
  bool inside() const { return stage_ == Stage::kInside; }

 private:
  enum class Stage { kBefore, kInside, kBehind, kContent };
  void drain(Found& found, bool all);
  bool step(Found& found, bool all);
  bool leave(Found& found, bool all);

  std::string open_, close_, held_;
  Stage stage_;
  bool thought_ = false;  // something of the thoughts has been given out
};

}  // namespace kvick::server
