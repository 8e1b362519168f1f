#include "text/forms/behind_thoughts.h"

#include <cmath>
#include <utility>

namespace kvick::text {
namespace {

class BehindThoughts final : public Constraint {
 public:
  // kMark: the mark was the last token.
  enum class Stage : uint8_t { kInside, kMark, kAnswer };

  BehindThoughts(std::unique_ptr<Constraint> answer, std::shared_ptr<const ThoughtEnd> end,
                 Stage stage)
      : answer_(std::move(answer)), end_(std::move(end)), stage_(stage) {}

  std::unique_ptr<Constraint> clone() const override {
    return std::make_unique<BehindThoughts>(answer_->clone(), end_, stage_);
  }

  void mask(std::span<float> logits) override {
    if (stage_ == Stage::kInside) {
      for (const int32_t token : end_->ends) logits[static_cast<size_t>(token)] = -INFINITY;
      return;
    }
    if (stage_ == Stage::kAnswer || !end_->spaces) return answer_->mask(logits);
    // Without its usual white space a model would begin the answer where it rarely does.
    float& spaces = logits[static_cast<size_t>(*end_->spaces)];
    const float allowed = spaces;
    answer_->mask(logits);
    spaces = allowed;
  }

  void accept(int32_t token) override {
    const Stage before = stage_;
    if (before == Stage::kInside) {
      if (token == end_->mark) stage_ = Stage::kMark;
      return;
    }
    stage_ = Stage::kAnswer;
    if (before == Stage::kMark && token == end_->spaces) return;
    answer_->accept(token);
  }

  bool complete() const override { return stage_ == Stage::kAnswer && answer_->complete(); }

 private:
  std::unique_ptr<Constraint> answer_;
  std::shared_ptr<const ThoughtEnd> end_;  // shared by the clones
  Stage stage_;
};

}  // namespace

std::shared_ptr<const Constraint> behind_thoughts(std::shared_ptr<const Constraint> answer,
                                                  ThoughtEnd end) {
  return std::make_shared<BehindThoughts>(answer->clone(),
                                          std::make_shared<const ThoughtEnd>(std::move(end)),
                                          BehindThoughts::Stage::kInside);
}

}  // namespace kvick::text
