#include "train/optimiser.h"

#include <cmath>
#include <numbers>

namespace kvick::train {
namespace {

constexpr double kBeta1 = 0.9, kEpsilon = 1e-8;

}  // namespace

Optimiser::Optimiser(const Parameters& weights, const RunSettings& run)
    : first(torch::zeros_like(weights.trained())),
      second(torch::zeros_like(weights.trained())),
      weights_(weights),
      run_(run) {}

void Optimiser::update(uint64_t step, double rate) {
  const at::NoGradGuard no_grad;
  Tensor gradient = weights_.gradients(), values = weights_.trained();
  // A factor on the device: asking for the norm here would wait for it.
  if (run_.clip > 0) gradient.mul_((run_.clip / (gradient.norm() + 1e-6)).clamp_max(1.0));
  first.mul_(kBeta1).add_(gradient, 1 - kBeta1);
  second.mul_(run_.beta2).addcmul_(gradient, gradient, 1 - run_.beta2);
  const double t = static_cast<double>(step) + 1;
  const Tensor scale = (second / (1 - std::pow(run_.beta2, t))).sqrt_().add_(kEpsilon);
  values.addcmul_(values, weights_.decays(), -rate * run_.weight_decay);
  values.addcdiv_(first, scale, -rate / (1 - std::pow(kBeta1, t)));
  gradient.zero_();
}

double learning_rate(const RunSettings& run, uint64_t step, double progress) {
  if (step < run.warmup)
    return run.lr * static_cast<double>(step + 1) / static_cast<double>(run.warmup);
  const double cosine = (1 + std::cos(std::numbers::pi * std::min(progress, 1.0))) / 2;
  return run.lr * (run.least_lr + (1 - run.least_lr) * cosine);
}

}  // namespace kvick::train
