#include "train/trainer/optimiser.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvick::train {
namespace {

constexpr double kBeta1 = 0.9, kEpsilon = 1e-8;
// Elements updated together, so that they stay in a core's cache between the operations of an
// update. On a GPU all elements are one piece: each operation costs a call, and memory is fast.
constexpr int64_t kPiece = 1 << 16;

}  // namespace

Optimiser::Optimiser(const Parameters& weights, const RunSettings& run)
    : first(torch::zeros_like(weights.trained())),
      second(torch::zeros_like(weights.trained())),
      weights_(weights),
      run_(run) {}

void Optimiser::update(uint64_t step, double rate) {
  const at::NoGradGuard no_grad;
  const Tensor all = weights_.gradients();
  // The factor stays on the device: reading the norm here would wait for the device.
  const Tensor clip = (run_.clip / (all.norm() + 1e-6)).clamp_max(1.0);
  const double t = static_cast<double>(step) + 1;
  const int64_t piece = all.is_cuda() ? all.size(0) : kPiece;
  for (int64_t begin = 0; begin < all.size(0); begin += piece) {
    const auto part = [&](const Tensor& x) {
      return x.narrow(0, begin, std::min(piece, all.size(0) - begin));
    };
    Tensor gradient = part(all), values = part(weights_.trained()), m = part(first),
           v = part(second);
    if (run_.clip > 0) gradient.mul_(clip);
    m.mul_(kBeta1).add_(gradient, 1 - kBeta1);
    v.mul_(run_.beta2).addcmul_(gradient, gradient, 1 - run_.beta2);
    const Tensor scale = (v / (1 - std::pow(run_.beta2, t))).sqrt_().add_(kEpsilon);
    values.addcmul_(values, part(weights_.decays()), -rate * run_.weight_decay);
    values.addcdiv_(m, scale, -rate / (1 - std::pow(kBeta1, t)));
    gradient.zero_();
  }
}

double learning_rate(const RunSettings& run, uint64_t step, double progress) {
  if (step < run.warmup)
    return run.lr * static_cast<double>(step + 1) / static_cast<double>(run.warmup);
  const double cosine = (1 + std::cos(std::numbers::pi * std::min(progress, 1.0))) / 2;
  return run.lr * (run.least_lr + (1 - run.least_lr) * cosine);
}

}  // namespace kvick::train
