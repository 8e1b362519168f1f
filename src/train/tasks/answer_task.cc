#include "train/tasks/answer_task.h"

#include <algorithm>

#include "train/tasks/mixed.h"

namespace kvick::train {
namespace {

constexpr uint64_t kHeldOutEvery = 20;
constexpr uint64_t kHeldOutRows = 4;  // few, because their loss covers the whole vocabulary

class Answers final : public Task {
 public:
  Answers(const AnswerData& data, const Settings& settings)
      : data_(data), rows_(settings.run.batch), seed_(settings.run.seed) {
    uint64_t begin = 0, longest = 0;
    for (size_t i = 0; i < data.ends.size(); ++i) {
      const Sequence sequence = {.first = begin, .tokens = data.ends[i] - begin};
      begin = data.ends[i];
      if (sequence.tokens < 2) continue;
      longest = std::max(longest, sequence.tokens);
      (i % kHeldOutEvery == 0 ? held_out_ : train_).push_back(sequence);
    }
    if (held_out_.empty() || train_.empty())
      refuse("the data has ", held_out_.size() + train_.size(),
             " answers to learn from, and at least 2 are needed");
    tokens_ = std::min(settings.model.ctx, longest - 1);
  }

  uint64_t vocab() const override { return data_.vocab; }
  bool asks() const override { return true; }

  Batch training(uint64_t step) const override {
    Batch batch = empty();
    for (; batch.rows < rows_; ++batch.rows) {
      const uint64_t drawn = mixed(mixed(seed_, step), batch.rows);
      const Sequence& sequence = train_[drawn % train_.size()];
      const uint64_t spare = sequence.tokens - std::min(sequence.tokens, tokens_ + 1);
      add(sequence, spare == 0 ? 0 : mixed(drawn, 1) % (spare + 1), batch);
    }
    return batch;
  }

  Batch held_out(uint64_t number) const override {
    Batch batch = empty();
    for (uint64_t row = number * kHeldOutRows; row < (number + 1) * kHeldOutRows; ++row) {
      if (row >= held_out_.size()) break;
      add(held_out_[row], 0, batch);
      ++batch.rows;
    }
    return batch;
  }

 private:
  struct Sequence {
    uint64_t first, tokens;
  };

  Batch empty() const { return {.rows = 0, .tokens = tokens_, .top = data_.top}; }

  // Adds a row: the sequence from its token `skip` on.
  void add(const Sequence& sequence, uint64_t skip, Batch& batch) const {
    for (uint64_t t = skip; t < skip + tokens_; ++t) {
      const bool asked = t + 1 < sequence.tokens;
      const uint64_t at = sequence.first + std::min(t, sequence.tokens - 1), next = at + asked;
      batch.inputs.push_back(data_.tokens[at]);
      batch.targets.push_back(asked ? data_.likeliest[next * data_.top] : kNotAsked);
      for (uint64_t i = next * data_.top; i < (next + 1) * data_.top; ++i) {
        batch.likeliest.push_back(data_.likeliest[i]);
        batch.chances.push_back(asked ? data_.chances[i] : 0);
      }
    }
  }

  const AnswerData& data_;
  uint64_t rows_, seed_, tokens_ = 0;
  std::vector<Sequence> train_, held_out_;
};

}  // namespace

std::unique_ptr<Task> answers_of(const AnswerData& data, const Settings& settings) {
  return std::make_unique<Answers>(data, settings);
}

}  // namespace kvick::train
