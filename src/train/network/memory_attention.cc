#include "train/network/memory_attention.h"

#include <limits>

namespace kvick::train {
namespace {

// The inputs cut into n chunks of C tokens. The last chunk is padded with zeros, which change
// nothing.
struct Chunks {
  int64_t count = 0, tokens = 0, group = 0;
  Tensor reads;   // [B, K, n, C * G, M]
  Tensor writes;  // [B, K, n, C, M]
  Tensor values;  // [B, K, n, C, d]
  Tensor sizes;   // [B, K, n, C]
  Tensor gates;   // [B, K, n, C]

  torch::ScalarType type() const { return writes.scalar_type(); }
  torch::ScalarType sum_type() const {
    return type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  }
  // Returns [C * G, C]: true where a query may see a token of its chunk.
  Tensor seen() const {
    const auto options = torch::TensorOptions().dtype(torch::kBool).device(writes.device());
    return torch::ones({tokens, tokens}, options).tril().repeat_interleave(group, 0);
  }
  // Returns zeros of [B, K, 1, M, d].
  Tensor empty_memory() const {
    return torch::zeros({writes.size(0), writes.size(1), 1, writes.size(-1), values.size(-1)},
                        writes.options().dtype(sum_type()));
  }
};

// Reshapes dimension 2, the tokens, to [n, C * each], padded with zeros.
Tensor cut(const Tensor& x, int64_t tokens, int64_t chunk, int64_t each) {
  const int64_t count = (tokens + chunk - 1) / chunk, missing = (count * chunk - tokens) * each;
  std::vector<int64_t> padding(static_cast<size_t>(2 * (x.dim() - 2)), 0);
  padding.back() = missing;
  const Tensor whole = missing == 0 ? x : torch::constant_pad_nd(x, padding);
  std::vector<int64_t> shape = x.sizes().vec();
  shape[2] = chunk * each;
  shape.insert(shape.begin() + 2, count);
  return whole.reshape(shape);
}

Chunks chunks_of(const MemoryInputs& in, int64_t chunk) {
  const int64_t tokens = in.writes.size(2);
  Chunks out;
  out.tokens = std::min(chunk, tokens);
  out.count = (tokens + out.tokens - 1) / out.tokens;
  out.group = in.reads.size(2) / tokens;
  out.reads = cut(in.reads, tokens, out.tokens, out.group);
  out.writes = cut(in.writes, tokens, out.tokens, 1);
  out.values = cut(in.values, tokens, out.tokens, 1);
  if (in.sizes.defined()) out.sizes = cut(in.sizes, tokens, out.tokens, 1);
  if (in.gates.defined()) out.gates = cut(in.gates, tokens, out.tokens, 1);
  return out;
}

// Returns the values times their step sizes.
Tensor sized(const Chunks& c) {
  return c.sizes.defined() ? c.values * c.sizes.unsqueeze(-1).to(c.type()) : c.values;
}

Tensor read_plain(const Chunks& c) {
  const Tensor values = sized(c), across = c.writes.transpose(-1, -2);
  const Tensor added = torch::matmul(across, values).to(c.sum_type());
  const Tensor before =
      torch::cat({c.empty_memory(), torch::cumsum(added.narrow(2, 0, c.count - 1), 2)}, 2);
  const Tensor within = torch::matmul(c.reads, across).masked_fill(c.seen().logical_not(), 0);
  return torch::matmul(c.reads, before.to(c.type())) + torch::matmul(within, values);
}

Tensor read_gated(const Chunks& c) {
  const Tensor values = sized(c), across = c.writes.transpose(-1, -2);
  const Tensor kept = torch::cumsum(c.gates.to(c.sum_type()), -1);  // sums of logarithms up to t
  const Tensor all = kept.narrow(-1, c.tokens - 1, 1);
  const Tensor left = torch::exp(all - kept).unsqueeze(-1).to(c.type());
  const Tensor added = torch::matmul((c.writes * left).transpose(-1, -2), values).to(c.sum_type());
  const Tensor through = torch::exp(all).unsqueeze(-1);
  std::vector<Tensor> before = {c.empty_memory()};
  for (int64_t i = 0; i + 1 < c.count; ++i)
    before.push_back(through.narrow(2, i, 1) * before.back() + added.narrow(2, i, 1));
  const Tensor by_query = kept.repeat_interleave(c.group, -1).unsqueeze(-1);
  // Masked before exp, which could overflow for tokens that a query does not see.
  const Tensor decay =
      (by_query - kept.unsqueeze(-2))
          .masked_fill(c.seen().logical_not(), -std::numeric_limits<double>::infinity());
  const Tensor within = torch::matmul(c.reads, across) * torch::exp(decay).to(c.type());
  const Tensor old = torch::matmul(c.reads, torch::cat(before, 2).to(c.type()));
  return old * torch::exp(by_query).to(c.type()) + torch::matmul(within, values);
}

// For each chunk, solves U = η (V - W S - tril(W Wᵀ, -1) U), where U holds the added rows and S is
// the memory before the chunk. This is a triangular system (the form of DeltaNet, Yang et al. 2024,
// with ww for its keys).
Tensor read_delta(const Chunks& c) {
  const Tensor across = c.writes.transpose(-1, -2);
  const Tensor sizes = c.sizes.to(c.sum_type()).unsqueeze(-1);
  const Tensor system = torch::tril(torch::matmul(c.writes, across).to(c.sum_type()), -1) * sizes +
                        torch::eye(c.tokens, c.writes.options().dtype(c.sum_type()));
  const Tensor within = torch::matmul(c.reads, across).masked_fill(c.seen().logical_not(), 0);
  Tensor memory = c.empty_memory();
  std::vector<Tensor> out;
  for (int64_t i = 0; i < c.count; ++i) {
    const auto part = [&](const Tensor& x) { return x.narrow(2, i, 1); };
    const Tensor answered = torch::matmul(part(c.writes), memory.to(c.type()));
    const Tensor wanted = (part(c.values) - answered).to(c.sum_type()) * part(sizes);
    const Tensor added =
        torch::linalg_solve_triangular(part(system), wanted, /*upper=*/false).to(c.type());
    out.push_back(torch::matmul(part(c.reads), memory.to(c.type())) +
                  torch::matmul(part(within), added));
    memory = memory + torch::matmul(part(across), added).to(c.sum_type());
  }
  return torch::cat(out, 2);
}

}  // namespace

Tensor read_memory(const MemoryInputs& in, const std::string& update, int64_t chunk) {
  const Chunks chunks = chunks_of(in, chunk);
  const Tensor out = update == "gated"   ? read_gated(chunks)
                     : update == "delta" ? read_delta(chunks)
                                         : read_plain(chunks);
  return out.flatten(2, 3).narrow(2, 0, in.reads.size(2));
}

}  // namespace kvick::train
