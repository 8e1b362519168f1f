#pragma once
// Collects the tensors of a made model.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "make_model/spec.h"

namespace kvick::tools {

// A unit-variance input gives outputs of this standard deviation. Queries have a little more, so
// that attention prefers some rows. Logits have more, so that the distribution is neither flat nor
// a point.
inline constexpr float kPlain = 1.0f, kQuery = 1.5f, kLogit = 2.5f, kBias = 0.3f, kNorm = 0.1f,
                       kFirstValue = 0.5f;

class TensorList {
 public:
  explicit TensorList(const Spec& spec) : spec_(spec) {}

  TensorInfo& matrix(const std::string& name, const std::string& hf, uint64_t rows, uint64_t inputs,
                     float gain) {
    const bool fits = inputs % kernels::dtype_info(spec_.type).block == 0;
    const float sd = gain / std::sqrt(static_cast<float>(inputs));
    list_.push_back({name + ".weight",
                     hf.empty() ? "" : hf + ".weight",
                     {rows, inputs},
                     fits ? spec_.type : spec_.odd_type,
                     0,
                     sd});
    return list_.back();
  }
  // Adds one matrix per expert.
  void stack(const std::string& name, uint64_t experts, uint64_t rows, uint64_t inputs,
             float gain) {
    matrix(name, "", rows, inputs, gain).shape = {experts, rows, inputs};
  }
  void vector(const std::string& name, const std::string& hf, uint64_t n, float mean, float sd) {
    list_.push_back({name, hf, {n}, kernels::DType::kF32, mean, sd});
  }
  void norm(const std::string& name, const std::string& hf, uint64_t n, bool bias, float mean = 1) {
    vector(name + ".weight", hf + ".weight", n, mean, mean * kNorm);
    if (bias) vector(name + ".bias", hf + ".bias", n, 0, kNorm);
  }
  void add(TensorInfo info) { list_.push_back(std::move(info)); }
  std::vector<TensorInfo> take() { return std::move(list_); }

 private:
  const Spec& spec_;
  std::vector<TensorInfo> list_;
};

// Add the tensors of Gemma 3n and 4 that other families lack: before the layers, in place of a
// layer's feed-forward block if it has experts, and at the end of a layer.
void add_gemma_tables(const Spec& spec, TensorList& list);
void add_parallel_experts(const Spec& spec, const std::string& blk, TensorList& list);
void add_gemma_layer(const Spec& spec, const std::string& blk, TensorList& list);

}  // namespace kvick::tools
