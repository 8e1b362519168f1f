#pragma once
// Trains a model step by step, and can resume exactly from any checkpoint.

#include "train/files/checkpoint.h"
#include "train/tasks/tasks.h"
#include "train/trainer/objective.h"
#include "train/trainer/optimiser.h"

namespace kvick::train {

// Results on held-out data: the mean loss, and the share of targets that were the likeliest token.
struct Measured {
  double loss = 0, accuracy = 0;
  uint64_t targets = 0;
};

// Measures `weights` on batches of held-out data, until `most` targets have been seen.
Measured measure(const Parameters& weights, const ModelSettings& model, const Task& task,
                 uint64_t most, Compute compute);

// Returns the type of matrix products that --precision means on a device.
torch::ScalarType type_of(const std::string& precision, const torch::Device& device);

// Returns which rows attention reads in training with a predictor.
RowBudget rows_of(const RunSettings& run);

class Trainer {
 public:
  // The arguments must outlive the trainer. The settings are complete.
  Trainer(const Settings& settings, const Task& task, const torch::Device& device);
  // Continues from a run's checkpoint, or begins with a model file's weights.
  void restore(const Checkpoint& from);

  uint64_t step() const { return step_; }  // steps done
  // Trains one step. progress: share of the run that is done.
  void train(double progress);
  // Returns the mean loss since the last call.
  double take_loss();
  // Measures the weights, and keeps them if they are the best so far.
  Measured measure_held_out(uint64_t most);

  // Returns the state of the model and its optimiser. The caller adds the log and the clock.
  Checkpoint checkpoint() const;
  const Parameters& weights() const { return weights_; }
  const Compute& compute() const { return compute_; }

 private:
  Tensor loss_of_step(const OnDevice& data) const;

  const Settings& settings_;
  const Task& task_;
  torch::Device device_;
  Compute compute_;
  Parameters weights_;
  Optimiser optimiser_;
  uint64_t step_ = 0, sum_steps_ = 0;
  Tensor sum_loss_;  // on the device; double, so that a checkpoint holds it exactly
  Tensor best_;
  double best_held_out_;
};

}  // namespace kvick::train
