#include "train/network/network.h"

#include <cmath>
#include <limits>
#include <torch/version.h>

#include "train/network/memory_attention.h"

namespace kvick::train {
namespace {

class Forward {
 public:
  Forward(const Parameters& weights, const ModelSettings& model, const Compute& compute)
      : weights_(weights), model_(model), compute_(compute) {}

  Tensor hidden(const Tensor& tokens) {
    const Tensor& embedding = weights_.at("token_embd.weight");
    Tensor x = dropped(torch::embedding(embedding, tokens));
    if (!model_.has_memory()) rotations(tokens.size(1), x.device());
    for (uint64_t layer = 0; layer < model_.layers; ++layer) {
      blk_ = text_of("blk.", layer, ".");
      const Tensor h = norm(x, blk_ + "attn_norm.weight");
      const Tensor read = model_.has_memory() ? from_memory(h) : from_rows(h);
      x = x + dropped(linear(read, "attn_output"));
      x = x + dropped(feed_forward(norm(x, blk_ + "ffn_norm.weight")));
    }
    return norm(x, "output_norm.weight");
  }

  const Tensor& error() const { return error_; }

 private:
  Tensor dropped(const Tensor& x) const {
    return compute_.dropout > 0 ? torch::dropout(x, compute_.dropout, true) : x;
  }

  Tensor norm(const Tensor& x, const std::string& name) const {
    const Tensor mean = torch::mean(x * x, {-1}, true);
    return (x * torch::rsqrt(mean + model_.norm_eps) * weights_.at(name)).to(compute_.type);
  }

  Tensor linear(const Tensor& x, const std::string& name) const {
    return torch::matmul(x, weights_.at(blk_ + name + ".weight").to(compute_.type).t());
  }

  Tensor feed_forward(const Tensor& h) const {
    return linear(torch::silu(linear(h, "ffn_gate")) * linear(h, "ffn_up"), "ffn_down");
  }

  // Returns [B, T, heads * head_dim] as [B, heads, T, head_dim].
  Tensor heads(const Tensor& x, uint64_t count) const {
    return x
        .view({x.size(0), x.size(1), static_cast<int64_t>(count),
               static_cast<int64_t>(model_.head_dim)})
        .transpose(1, 2);
  }

  // Computes cosines and sines of [T, head_dim / 2] angles, in doubles as the engine does.
  void rotations(int64_t tokens, const torch::Device& device) {
    const auto dim = static_cast<int64_t>(model_.head_dim);
    const auto doubles = torch::TensorOptions().dtype(torch::kFloat64);
    const Tensor pair = torch::arange(dim / 2, doubles);
    const Tensor frequency = torch::pow(model_.rope_base, pair * (-2.0 / static_cast<double>(dim)));
    const Tensor angle = torch::outer(torch::arange(tokens, doubles), frequency);
    cos_ = torch::cos(angle).to(torch::kFloat32).to(device);
    sin_ = torch::sin(angle).to(torch::kFloat32).to(device);
  }

  // Rotates the pairs (2i, 2i + 1), GGUF's order for llama.
  Tensor rotated(const Tensor& x) const {
    const Tensor pairs = x.to(torch::kFloat32).reshape({x.size(0), x.size(1), x.size(2), -1, 2});
    const Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return torch::stack({a * cos_ - b * sin_, a * sin_ + b * cos_}, -1)
        .flatten(-2)
        .to(compute_.type);
  }

  Tensor from_rows(const Tensor& h) {
    const auto group = static_cast<int64_t>(model_.heads / model_.kv_heads);
    const Tensor q = rotated(heads(linear(h, "attn_q"), model_.heads));
    const Tensor k = rotated(heads(linear(h, "attn_k"), model_.kv_heads));
    const Tensor v = heads(linear(h, "attn_v"), model_.kv_heads);
    if (model_.rank > 0) return chosen(q, k, v).transpose(1, 2).flatten(2);
    const Tensor out = attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1));
    return out.transpose(1, 2).flatten(2);
  }

  // Returns attention over the rows that the layer's predictor selects.
  Tensor chosen(const Tensor& q, const Tensor& k, const Tensor& v) {
    const auto low = [&](const std::string& name, uint64_t heads) {
      return weights_.at(blk_ + name)
          .to(compute_.type)
          .view({static_cast<int64_t>(heads), static_cast<int64_t>(model_.rank),
                 static_cast<int64_t>(model_.head_dim)});
    };
    const Selected selected =
        selected_attention(q, k, v, low("predictor_q.weight", model_.heads),
                           low("predictor_k.weight", model_.kv_heads), compute_.rows);
    const Tensor part = selected.error / static_cast<double>(model_.layers);
    error_ = error_.defined() ? error_ + part : part;
    return selected.out;
  }

  // Returns one number for each token and KV head: [B, kv_heads, T].
  Tensor per_token(const Tensor& h, const std::string& name) const {
    const Tensor bias = weights_.at(blk_ + name + ".bias");
    return (linear(h, name).to(torch::kFloat32) + bias).transpose(1, 2);
  }

  // Returns [B, T, kv_heads * head_dim].
  Tensor write_query(const Tensor& h) const {
    const Tensor own = linear(h, "memory_wq");
    if (model_.address == "own") return own;
    const Tensor before = linear(h.narrow(1, 0, h.size(1) - 1), "memory_before");
    return own + torch::constant_pad_nd(before, {0, 0, 1, 0});  // zeros before the first token
  }

  // Returns the RMS norm of M times the value read, as if each slot had been read with weight 1.
  Tensor normed(const Tensor& read) const {
    const Tensor x = read.to(torch::kFloat32) * static_cast<double>(model_.slots);
    return (x * torch::rsqrt(torch::mean(x * x, {-1}, true) + model_.norm_eps)).to(compute_.type);
  }

  Tensor from_memory(const Tensor& h) const {
    const auto kv_heads = static_cast<int64_t>(model_.kv_heads);
    const auto dim = static_cast<int64_t>(model_.head_dim);
    const double scale = 1 / std::sqrt(static_cast<double>(dim));
    const Tensor keys = (weights_.at(blk_ + "memory_keys.weight") * scale)
                            .to(compute_.type)
                            .view({kv_heads, -1, dim})
                            .transpose(1, 2);
    // [B, T, kv_heads, G * d] to [B, kv_heads, T * G, d]
    const Tensor q = linear(h, "attn_q")
                         .view({h.size(0), h.size(1), kv_heads, -1})
                         .transpose(1, 2)
                         .reshape({h.size(0), kv_heads, -1, dim});
    const Tensor wq = heads(write_query(h), model_.kv_heads);
    MemoryInputs in{.reads = torch::softmax(torch::matmul(q, keys), -1),
                    .writes = torch::softmax(torch::matmul(wq, keys), -1),
                    .values = heads(linear(h, "memory_wv"), model_.kv_heads),
                    .sizes = {},
                    .gates = {}};
    if (model_.update != "plain") in.sizes = torch::sigmoid(per_token(h, "memory_step"));
    if (model_.update == "gated") in.gates = torch::log_sigmoid(per_token(h, "memory_gate"));
    const Tensor read = read_memory(in, model_.update, compute_.chunk);
    const Tensor out = model_.read == "normed" ? normed(read) : read;
    return out.reshape({h.size(0), kv_heads, h.size(1), -1}).transpose(1, 2).flatten(2);
  }

  const Parameters& weights_;
  const ModelSettings& model_;
  const Compute& compute_;
  std::string blk_;
  Tensor cos_, sin_, error_;
};

}  // namespace

Tensor attention_written_out(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto options = torch::TensorOptions().dtype(torch::kBool).device(q.device());
  const Tensor unseen =
      torch::ones({q.size(2), k.size(2)}, options).triu(k.size(2) - q.size(2) + 1);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor scores = torch::matmul(q * scale, k.transpose(-1, -2))
                            .masked_fill(unseen, -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::softmax(scores, -1), v);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
#else
  // Computes pieces of queries, each with only the keys up to its last query. This halves the
  // number of scores, and those of a piece stay in the CPU cache between operations.
  constexpr int64_t kPiece = 128;
  std::vector<Tensor> out;
  for (int64_t first = 0; first < q.size(2); first += kPiece) {
    const int64_t end = std::min(first + kPiece, q.size(2));
    out.push_back(attention_written_out(q.narrow(2, first, end - first), k.narrow(2, 0, end),
                                        v.narrow(2, 0, end)));
  }
  return torch::cat(out, 2);
#endif
}

Tensor hidden_of(const Parameters& weights, const ModelSettings& model, const Tensor& tokens,
                 const Compute& compute, Tensor* error) {
  Forward forward(weights, model, compute);
  Tensor out = forward.hidden(tokens);
  if (error != nullptr) *error = forward.error();
  return out;
}

Tensor logits_of(const Parameters& weights, const ModelSettings& model, const Tensor& tokens,
                 const Compute& compute) {
  return logits_of(hidden_of(weights, model, tokens, compute), weights, compute);
}

Tensor logits_of(const Tensor& hidden, const Parameters& weights, const Compute& compute) {
  const Tensor output = weights.at("token_embd.weight").to(compute.type);
  return torch::matmul(hidden, output.t()).to(torch::kFloat32);
}

}  // namespace kvick::train
