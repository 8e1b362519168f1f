#include <algorithm>

#include "make_model/tensor_list.h"

namespace kvick::tools {
namespace {

using kernels::DType;

// Standard deviations: of the router's outputs before the tanh, and of the coefficients that
// predict and correct the streams.
constexpr float kRouted = 1, kPredicted = 0.1F, kCorrected = 0.3F;

void add_streams(const Spec& spec, const std::string& blk, TensorList& list) {
  const uint64_t n = spec.features.streams, dim = spec.dim;
  list.norm(blk + "altup_router_norm", "", dim, false);
  const float root = std::sqrt(static_cast<float>(dim));  // the router divides its inputs by it
  list.add({blk + "altup_router.weight", "", {n, dim}, DType::kF32, 0, kRouted * root});
  list.add({blk + "altup_predict_coef.weight", "", {n * n, n}, DType::kF32, 0, kPredicted});
  list.add({blk + "altup_correct_coef.weight", "", {n, n}, DType::kF32, 0, kCorrected});
  list.norm(blk + "altup_correct_scale", "", dim, false);
}

}  // namespace

void add_gemma_tables(const Spec& spec, TensorList& list) {
  const Features& f = spec.features;
  const uint64_t pairs = spec.head_dim / 2;
  if (f.full_pairs != 0) {
    constexpr float kNever = 1e30F;  // a frequency divided by this does not rotate
    std::vector<float> factors(pairs, kNever);
    std::fill_n(factors.begin(), f.full_pairs, 1.0F);
    list.add({"rope_freqs.weight", "", {pairs}, DType::kF32, 0, 0, 0, std::move(factors)});
  }
  if (f.streams != 0) {
    list.stack("altup_proj", f.streams - 1, spec.dim, spec.dim, kPlain);
    list.stack("altup_unembd_proj", f.streams - 1, spec.dim, spec.dim, kPlain);
  }
  if (f.layer_inputs == 0) return;
  const uint64_t floats = uint64_t{f.layer_inputs} * spec.layers;
  // Looked-up rows are multiplied by the root of one layer's floats.
  list.matrix("per_layer_token_embd", "", spec.vocab, floats,
              std::sqrt(static_cast<float>(spec.layers)));
  list.matrix("per_layer_model_proj", "", floats, spec.dim, kPlain);
  list.norm("per_layer_proj_norm", "", f.layer_inputs, false);
}

void add_parallel_experts(const Spec& spec, const std::string& blk, TensorList& list) {
  const Features& f = spec.features;
  list.matrix(blk + "ffn_gate", "", spec.ffn, spec.dim, kPlain);
  list.matrix(blk + "ffn_up", "", spec.ffn, spec.dim, kPlain);
  list.matrix(blk + "ffn_down", "", spec.dim, spec.ffn, kPlain);
  const float root = std::sqrt(static_cast<float>(spec.dim));  // router divides inputs by it
  list.add({blk + "ffn_gate_inp.weight", "", {f.experts, spec.dim}, DType::kF32, 0, kQuery / root});
  list.vector(blk + "ffn_gate_inp.scale", "", spec.dim, root, kNorm * root);
  list.stack(blk + "ffn_gate_up_exps", f.experts, 2 * f.expert_ffn, spec.dim, kPlain);
  list.stack(blk + "ffn_down_exps", f.experts, spec.dim, f.expert_ffn, kPlain);
  list.vector(blk + "ffn_down_exps.scale", "", f.experts, 1, kBias);
  for (const char* norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"})
    list.norm(blk + norm, "", spec.dim, false);
}

void add_gemma_layer(const Spec& spec, const std::string& blk, TensorList& list) {
  const Features& f = spec.features;
  if (f.laurel != 0) {
    list.matrix(blk + "laurel_l", "", f.laurel, spec.dim, kPlain);
    list.matrix(blk + "laurel_r", "", spec.dim, f.laurel, kPlain);
    list.norm(blk + "laurel_post_norm", "", spec.dim, false);
  }
  if (f.streams != 0) add_streams(spec, blk, list);
  if (f.layer_inputs != 0) {
    list.matrix(blk + "inp_gate", "", f.layer_inputs, spec.dim, kPlain);
    list.matrix(blk + "proj", "", spec.dim, f.layer_inputs, kPlain);
    list.norm(blk + "post_norm", "", spec.dim, false);
  }
  if (f.output_scales) list.vector(blk + "layer_output_scale.weight", "", 1, 0.8F, kNorm);
}

}  // namespace kvick::tools
