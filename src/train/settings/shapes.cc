#include "train/settings/shapes.h"

#include <cmath>

namespace kvick::train {
namespace {

constexpr double kSd = 0.02;
// Step sizes begin near 1, the value of the plain update.
constexpr double kFirstStep = 2;

// Returns the bias of the gates. A gate of 1 - 1/tokens is sigmoid(log(tokens - 1)), so even steps
// of the bias are geometric steps of tokens.
TensorShape gate_bias(const ModelSettings& m, std::string name) {
  const double first = std::log(m.shortest - 1), last = std::log(m.longest - 1);
  return {.name = std::move(name),
          .shape = {m.kv_heads},
          .mean = (first + last) / 2,
          .rise = last - first};
}

void add_memory(const ModelSettings& m, const std::string& blk, std::vector<TensorShape>& out) {
  out.push_back({blk + "memory_wq.weight", {m.kv_dim(), m.dim}, 0, kSd, true});
  if (m.address == "both")
    out.push_back({blk + "memory_before.weight", {m.kv_dim(), m.dim}, 0, kSd, true});
  out.push_back({blk + "memory_wv.weight", {m.kv_dim(), m.dim}, 0, kSd, true});
  // No decay: slots are addresses, and decay would pull them together.
  out.push_back({blk + "memory_keys.weight", {m.kv_heads * m.slots, m.head_dim}, 0, 1});
  if (m.update != "plain") {
    out.push_back({blk + "memory_step.weight", {m.kv_heads, m.dim}, 0, kSd, true});
    out.push_back({blk + "memory_step.bias", {m.kv_heads}, kFirstStep, 0});
  }
  if (m.update == "gated") {
    out.push_back({blk + "memory_gate.weight", {m.kv_heads, m.dim}, 0, kSd, true});
    out.push_back(gate_bias(m, blk + "memory_gate.bias"));
  }
}

}  // namespace

bool is_predictor(const TensorShape& tensor) {
  return tensor.name.find(".predictor_") != std::string::npos;
}

std::vector<TensorShape> tensors_of(const ModelSettings& m) {
  // Each block adds to the residual stream, so its outputs shrink with the number of blocks.
  const double added = kSd / std::sqrt(2.0 * static_cast<double>(m.layers));
  std::vector<TensorShape> out;
  out.push_back({"token_embd.weight", {m.vocab, m.dim}, 0, kSd, true});
  for (uint64_t layer = 0; layer < m.layers; ++layer) {
    const std::string blk = text_of("blk.", layer, ".");
    out.push_back({blk + "attn_norm.weight", {m.dim}, 1, 0});
    out.push_back({blk + "attn_q.weight", {m.q_dim(), m.dim}, 0, kSd, true});
    if (m.has_memory()) {
      add_memory(m, blk, out);
    } else {
      out.push_back({blk + "attn_k.weight", {m.kv_dim(), m.dim}, 0, kSd, true});
      out.push_back({blk + "attn_v.weight", {m.kv_dim(), m.dim}, 0, kSd, true});
    }
    if (m.rank > 0) {
      out.push_back({blk + "predictor_q.weight", {m.heads * m.rank, m.head_dim}, 0, kSd});
      out.push_back({blk + "predictor_k.weight", {m.kv_heads * m.rank, m.head_dim}, 0, kSd});
    }
    out.push_back({blk + "attn_output.weight", {m.dim, m.q_dim()}, 0, added, true});
    out.push_back({blk + "ffn_norm.weight", {m.dim}, 1, 0});
    out.push_back({blk + "ffn_gate.weight", {m.ffn, m.dim}, 0, kSd, true});
    out.push_back({blk + "ffn_up.weight", {m.ffn, m.dim}, 0, kSd, true});
    out.push_back({blk + "ffn_down.weight", {m.dim, m.ffn}, 0, added, true});
  }
  out.push_back({"output_norm.weight", {m.dim}, 1, 0});
  return out;
}

uint64_t elements_of(const ModelSettings& model) {
  uint64_t elements = 0;
  for (const TensorShape& tensor : tensors_of(model)) elements += tensor.elements();
  return elements;
}

TrainedPart trained_part(const Settings& settings) {
  const ModelSettings& m = settings.model;
  const uint64_t all = elements_of(m);
  if (settings.run.train == "all") return {.first = 0, .count = all};
  return {.first = m.vocab * m.dim, .count = all - m.vocab * m.dim - m.dim};
}

}  // namespace kvick::train
