#pragma once
// Guards that both source files of Evaluator use.

#include <string>
#include <utility>

#include "text/template/eval.h"

namespace kvick::text::jinja {

// The deepest evaluation (expressions, blocks and macro calls together) that is allowed. It uses
// far less than a stack of 8 MiB, even in a build with sanitizers.
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

// Captures what the evaluator writes during this object's lifetime.
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
