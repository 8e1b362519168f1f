#pragma once
// The training tasks: text, another model's answers, or made-up sequences that only memory can
// answer. Every batch depends only on its number, so that a run can resume at any step.

#include <cstdint>
#include <memory>
#include <vector>

#include "train/files/answers_file.h"
#include "train/settings/settings.h"

namespace kvick::train {

inline constexpr int64_t kNotAsked = -100;  // a target that does not count

// [rows][tokens]: the inputs, and the tokens to predict.
struct Batch {
  uint64_t rows = 0, tokens = 0;
  std::vector<int64_t> inputs, targets;
  // For answers, [rows][tokens][top]: the other model's likeliest next tokens, which include the
  // targets, and their probabilities; 0 where there is no target.
  uint64_t top = 0;
  std::vector<int64_t> likeliest;
  std::vector<float> chances;
};

// The data of a run: text, answers, or neither if the data is made up.
struct Data {
  const TokenData* text = nullptr;
  const AnswerData* answers = nullptr;
  // These describe the data that is set; 0 and null if there is none.
  uint64_t tokens() const;  // number of training tokens
  uint64_t vocab() const;
  const Vocabulary* vocabulary() const;
};

class Task {
 public:
  virtual ~Task();
  virtual uint64_t vocab() const = 0;
  virtual Batch training(uint64_t step) const = 0;
  // Returns batch `number` of the held-out data; a batch without rows: there are no more.
  virtual Batch held_out(uint64_t number) const = 0;
  // True for tasks with few targets, where accuracy says more than the loss.
  virtual bool asks() const { return false; }
};

// Returns the task that the settings name. The data must outlive it. Throws Mistake for data that
// is missing or too short.
std::unique_ptr<Task> make_task(const Settings& settings, const Data& data);

// Returns the held-out text in windows of `ctx` tokens, `rows` windows per batch.
std::unique_ptr<Task> windows_of(const TokenData& data, uint64_t ctx, uint64_t rows);

}  // namespace kvick::train
