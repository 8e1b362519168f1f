#pragma once
// What is learnt: text, another model's answers, or made-up sequences that only memory can answer.
// Every batch is a function of its number, so that a run can go on from any step.

#include <cstdint>
#include <memory>
#include <vector>

#include "train/files/answers_file.h"
#include "train/settings/settings.h"

namespace kvick::train {

inline constexpr int64_t kNotAsked = -100;  // a target that counts for nothing

// [rows][tokens]: what is read, and what ought to come next.
struct Batch {
  uint64_t rows = 0, tokens = 0;
  std::vector<int64_t> inputs, targets;
  // For answers, [rows][tokens][top]: the other model's most likely next tokens, which include the
  // targets, and their probabilities; 0 where nothing is asked.
  uint64_t top = 0;
  std::vector<int64_t> likeliest;
  std::vector<float> chances;
};

// The data that a run reads: text, answers, or neither if its data is made up.
struct Data {
  const TokenData* text = nullptr;
  const AnswerData* answers = nullptr;
  // These describe the one that is set; 0 and null if neither is.
  uint64_t tokens() const;  // that training reads
  uint64_t vocab() const;
  const Vocabulary* vocabulary() const;
};

class Task {
 public:
  virtual ~Task();
  virtual uint64_t vocab() const = 0;
  virtual Batch training(uint64_t step) const = 0;
  // Batch `number` of data that training never shows; no rows: there are no more.
  virtual Batch held_out(uint64_t number) const = 0;
  // True where the answers are few and a share of right ones says more than a loss.
  virtual bool asks() const { return false; }
};

// The task that the settings name. What data refers to must outlive it. Throws Mistake for data
// that is missing or too short.
std::unique_ptr<Task> make_task(const Settings& settings, const Data& data);

// Held-out text in windows of `ctx` tokens, `rows` of them a batch.
std::unique_ptr<Task> windows_of(const TokenData& data, uint64_t ctx, uint64_t rows);

}  // namespace kvick::train
