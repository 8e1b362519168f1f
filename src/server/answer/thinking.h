#pragma once
// Separates a model's thoughts from its answer as the text arrives.

#include <string>
#include <string_view>

#include "text/template/answer_syntax.h"

namespace kvick::server {

class ThinkingParser {
 public:
  struct Found {
    std::string reasoning, content;
  };
  // inside: the prompt ended with the opening mark, so the text begins with thoughts.
  ThinkingParser(const text::AnswerSyntax& syntax, bool inside);

  // Returns the parts that are certain by now, without white space around the thoughts.
  Found push(std::string_view text);
  // Returns the rest; the text has ended.
  Found finish();
  // Returns whether thoughts have begun and not ended.
  bool inside() const { return stage_ == Stage::kInside; }

 private:
  enum class Stage { kBefore, kInside, kBehind, kContent };
  void drain(Found& found, bool all);
  bool step(Found& found, bool all);
  bool leave(Found& found, bool all);

  std::string open_, close_, held_;
  Stage stage_;
  bool thought_ = false;  // some thoughts were returned already
};

}  // namespace kvick::server
