#pragma once
// Guards of the Evaluator's two source files.

#include <string>
#include <utility>

#include "text/template/eval.h"

namespace kvick::text::jinja {

// Evaluation nested deeper than this (expressions, blocks and macro calls together) is refused,
// long before a stack of 8 MiB is full even in a build with sanitizers.
inline constexpr int kMaxEvaluationDepth = 800;

class Evaluator::Nested {
 public:
  explicit Nested(Evaluator& evaluator) : evaluator_(evaluator) {
    if (evaluator_.depth_ >= kMaxEvaluationDepth)
      fail("macros and blocks are nested more than {} deep", kMaxEvaluationDepth);
    ++evaluator_.depth_;
  }
  ~Nested() { --evaluator_.depth_; }

 private:
  Evaluator& evaluator_;
};

// Takes what is written while it lives.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator)
      : evaluator_(evaluator), outer_(std::exchange(evaluator.sink_, &text_)) {}
  ~Capture() {
    evaluator_.sink_ = outer_;
    evaluator_.heap_.give(written_ ? written_ : text_.size());
  }
  std::string take() {
    written_ = text_.size();
    return std::move(text_);
  }

 private:
  Evaluator& evaluator_;
  std::string text_;
  std::string* outer_;
  size_t written_ = 0;
};

}  // namespace kvick::text::jinja
