#include "train/trainer/trainer.h"

#include <cstring>
#include <limits>

#include "train/tasks/mixed.h"

namespace kvick::train {
namespace {

std::vector<float> floats_of(const Tensor& x) {
  const Tensor here = x.to(torch::kCPU).contiguous();
  std::vector<float> out(static_cast<size_t>(here.numel()));
  std::memcpy(out.data(), here.data_ptr<float>(), out.size() * sizeof(float));
  return out;
}

void fill(const Tensor& to, const std::vector<float>& from) {
  const at::NoGradGuard no_grad;
  Tensor target = to;
  target.copy_(torch::tensor(from));
}

}  // namespace

torch::ScalarType type_of(const std::string& precision, const torch::Device& device) {
  const bool narrow = precision == "bf16" || (precision == "auto" && device.is_cuda());
  return narrow ? torch::kBFloat16 : torch::kFloat32;
}

RowBudget rows_of(const RunSettings& run) {
  return {.share = run.budget, .least = run.least, .sinks = run.sinks, .recent = run.recent};
}

Measured measure(const Parameters& weights, const ModelSettings& model, const Task& task,
                 uint64_t most, Compute compute) {
  const at::NoGradGuard no_grad;
  compute.dropout = 0;
  Measured out;
  double loss = 0, right = 0;
  for (uint64_t number = 0; out.targets < most; ++number) {
    const Batch batch = task.held_out(number);
    if (batch.rows == 0) break;
    const OnDevice data = to_device(batch, weights.values().device());
    const Tensor logits = logits_of(weights, model, data.inputs, compute);
    const Tensor asked = data.targets != kNotAsked;
    const auto count = asked.sum().item<int64_t>();
    loss += loss_of(logits, data).item<double>() * static_cast<double>(count);
    right += ((logits.argmax(-1) == data.targets) & asked).sum().item<double>();
    out.targets += static_cast<uint64_t>(count);
  }
  if (out.targets == 0)
    return {.loss = std::numeric_limits<double>::quiet_NaN(), .accuracy = 0, .targets = 0};
  out.loss = loss / static_cast<double>(out.targets);
  out.accuracy = right / static_cast<double>(out.targets);
  return out;
}

Trainer::Trainer(const Settings& settings, const Task& task, const torch::Device& device)
    : settings_(settings),
      task_(task),
      device_(device),
      weights_(settings, device),
      optimiser_(weights_, settings.run),
      sum_loss_(torch::zeros({}, torch::TensorOptions().dtype(torch::kFloat64).device(device))),
      best_(weights_.values().clone()),
      best_held_out_(std::numeric_limits<double>::infinity()) {
  compute_.type = type_of(settings.run.precision, device);
  compute_.dropout = settings.run.dropout;
  compute_.rows = rows_of(settings.run);
  compute_.chunk = device.is_cuda() ? 128 : 64;
}

void Trainer::restore(const Checkpoint& from) {
  fill(weights_.values(), from.values);
  if (!from.first.empty()) {
    fill(optimiser_.first, from.first);
    fill(optimiser_.second, from.second);
  }
  fill(best_, from.best.empty() ? from.values : from.best);
  best_held_out_ = from.best_held_out;
  step_ = from.step;
  sum_steps_ = from.sum_steps;
  sum_loss_.fill_(from.sum_loss);
}

void Trainer::train(double progress) {
  // Dropout uses libtorch's own generator, which is seeded per step from the step's number.
  at::manual_seed(settings_.run.seed * 1'000'003 + step_);
  const OnDevice data = to_device(task_.training(step_), device_);
  const Tensor loss = loss_of_step(data);
  loss.backward();
  sum_loss_ += loss.detach().to(torch::kFloat64);
  ++sum_steps_;
  optimiser_.update(step_, learning_rate(settings_.run, step_, progress));
  ++step_;
}

Tensor Trainer::loss_of_step(const OnDevice& data) const {
  const RunSettings& run = settings_.run;
  if (run.task == "answers" && run.negatives > 0)
    return sampled_loss(hidden_of(weights_, settings_.model, data.inputs, compute_),
                        weights_.at("token_embd.weight"), data, run.negatives,
                        mixed(run.seed, step_));
  Tensor error;
  const Tensor hidden = hidden_of(weights_, settings_.model, data.inputs, compute_, &error);
  const Tensor loss = loss_of(logits_of(hidden, weights_, compute_), data);
  return error.defined() ? loss + run.alpha * error : loss;
}

double Trainer::take_loss() {
  const double mean = sum_loss_.item<double>() / static_cast<double>(sum_steps_);
  sum_loss_.zero_();
  sum_steps_ = 0;
  return mean;
}

Measured Trainer::measure_held_out(uint64_t most) {
  const Measured out = measure(weights_, settings_.model, task_, most, compute_);
  if (out.loss < best_held_out_) {
    best_held_out_ = out.loss;
    best_.copy_(weights_.values());
  }
  return out;
}

Checkpoint Trainer::checkpoint() const {
  Checkpoint out;
  out.settings = settings_;
  out.step = step_;
  out.sum_loss = sum_loss_.item<double>();
  out.sum_steps = sum_steps_;
  out.values = floats_of(weights_.values());
  out.first = floats_of(optimiser_.first);
  out.second = floats_of(optimiser_.second);
  // If no held-out loss was measured, the newest weights count as the best.
  const bool measured = best_held_out_ < std::numeric_limits<double>::infinity();
  out.best = measured ? floats_of(best_) : out.values;
  out.best_held_out = best_held_out_;
  return out;
}

}  // namespace kvick::train
