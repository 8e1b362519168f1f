#include "train/trainer/check.h"

#include "train/network/memory_attention.h"
#include "train/network/network.h"

namespace kvick::train {
namespace {

// The definition of read_memory(): one token at a time.
Tensor by_token(const MemoryInputs& in, const std::string& update) {
  const int64_t tokens = in.writes.size(2), group = in.reads.size(2) / tokens;
  const Tensor wv = in.values.unsqueeze(-2), ww = in.writes.unsqueeze(-2);
  Tensor memory = torch::zeros({ww.size(0), ww.size(1), ww.size(-1), wv.size(-1)}, wv.options());
  std::vector<Tensor> out;
  for (int64_t t = 0; t < tokens; ++t) {
    const Tensor w = ww.select(2, t);
    Tensor added = wv.select(2, t);
    if (update == "delta") added = added - torch::matmul(w, memory);
    if (in.sizes.defined()) added = added * in.sizes.select(2, t).unsqueeze(-1).unsqueeze(-1);
    if (in.gates.defined())
      memory = memory * torch::exp(in.gates.select(2, t)).unsqueeze(-1).unsqueeze(-1);
    memory = memory + torch::matmul(w.transpose(-1, -2), added);
    out.push_back(torch::matmul(in.reads.narrow(2, t * group, group), memory));
  }
  return torch::cat(out, 2);
}

MemoryInputs random_inputs(const std::string& update, int64_t tokens,
                           const torch::TensorOptions& options) {
  constexpr int64_t kSequences = 2, kHeads = 3, kGroup = 2, kSlots = 12, kDim = 5;
  const auto random = [&](std::vector<int64_t> sizes) { return torch::randn(sizes, options); };
  MemoryInputs in{
      .reads = torch::softmax(2 * random({kSequences, kHeads, tokens * kGroup, kSlots}), -1),
      .writes = torch::softmax(2 * random({kSequences, kHeads, tokens, kSlots}), -1),
      .values = random({kSequences, kHeads, tokens, kDim}),
      .sizes = {},
      .gates = {}};
  if (update != "plain") in.sizes = torch::sigmoid(random({kSequences, kHeads, tokens}));
  if (update == "gated") in.gates = torch::log_sigmoid(3 * random({kSequences, kHeads, tokens}));
  for (Tensor* x : {&in.reads, &in.writes, &in.values, &in.sizes, &in.gates})
    if (x->defined()) *x = x->detach().requires_grad_(true);
  return in;
}

double difference(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// Returns the largest difference of outputs and gradients between both. Random weights make every
// output count differently.
double memory_difference(const std::string& update, int64_t tokens, int64_t chunk,
                         const torch::TensorOptions& options) {
  const MemoryInputs in = random_inputs(update, tokens, options);
  const Tensor twin = by_token(in, update), fast = read_memory(in, update, chunk);
  const Tensor weights = torch::randn(twin.sizes(), options);
  double largest = difference(fast, twin);
  std::vector<Tensor> inputs;
  for (const Tensor& x : {in.reads, in.writes, in.values, in.sizes, in.gates})
    if (x.defined()) inputs.push_back(x);
  const auto gradients = [&](const Tensor& out) {
    for (Tensor& x : inputs) x.mutable_grad() = Tensor();
    (out * weights).sum().backward();
    std::vector<Tensor> all;
    for (const Tensor& x : inputs) all.push_back(x.grad().clone());
    return all;
  };
  const std::vector<Tensor> expected = gradients(twin), got = gradients(fast);
  for (size_t i = 0; i < got.size(); ++i)
    largest = std::max(largest, difference(got[i], expected[i]));
  return largest;
}

}  // namespace

std::vector<CheckResult> check_device(const torch::Device& device) {
  at::manual_seed(1);
  const auto doubles = torch::TensorOptions().dtype(torch::kFloat64).device(device);
  std::vector<CheckResult> out;
  for (const char* update : kUpdates)
    for (const int64_t chunk : {1, 4, 7, 100})
      out.push_back({text_of("update ", update, " in chunks of ", chunk),
                     memory_difference(update, 21, chunk, doubles), 1e-10});
  const auto q = torch::randn({2, 3, 300, 64}, doubles.dtype(torch::kFloat32));
  const Tensor k = torch::randn_like(q), v = torch::randn_like(q);
  out.push_back({"causal attention", difference(attention(q, k, v), attention_written_out(q, k, v)),
                 1e-3});  // a GPU may use products of lower precision
  return out;
}

}  // namespace kvick::train
