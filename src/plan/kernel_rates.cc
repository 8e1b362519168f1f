#include "plan/kernel_rates.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/memory.h"

namespace kvick::plan {
namespace {

using kernels::DType;

// A matrix like those of small models, 1 to 9 MB by type: small enough for a cache of all threads.
constexpr uint32_t kRows = 1536, kInputs = 1536;
constexpr int kRounds = 5;  // the fastest counts
// Parallel regions of one layer: model/layers.cc has qkv, heads, writing, views, attention, output,
// gate with up, down.
constexpr int kRegions = 8;

kernels::Matrix random_matrix(DType type, base::Arena& arena) {
  std::mt19937 random(1);
  std::vector<std::byte> source(kernels::dtype_bytes(type, kInputs) * kernels::kPanel);
  // Neither NaN nor subnormal numbers, which cost a hundred cycles each.
  const bool floats = !kernels::pack_format(type).quantised;
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>((random() & 0x3b) | (floats && i % 2 == 1 ? 0x30 : 0));
  kernels::Matrix matrix = kernels::make_matrix(type, kRows, kInputs, &arena);
  for (uint32_t panel = 0; panel < matrix.panels(); ++panel)
    kernels::pack_panels(matrix, source.data(), kernels::kPanel, panel * kernels::kPanel, panel,
                         panel + 1);
  return matrix;
}

struct Tokens {
  explicit Tokens(uint32_t tokens, const kernels::Table& kernels)
      : x(size_t{tokens} * kInputs, 0.5F), q(x.size()), scale(x.size() / 32), sums(x.size() / 16) {
    a = {tokens, kInputs, x.data(), q, scale, sums};
    kernels.quantise(a, {0, tokens}, {0, a.groups()});
  }
  std::vector<float> x;
  std::vector<int8_t> q;
  std::vector<float> scale;
  std::vector<int32_t> sums;
  kernels::Activations a;
};

void multiply(base::ThreadPool& pool, const kernels::Table& kernels, const kernels::Matrix& w,
              const Tokens& tokens, std::vector<float>& y) {
  const size_t grain = std::max<size_t>(1, w.panels() / (size_t{pool.size()} * 4));
  pool.parallel_for(w.panels(), grain, [&](size_t begin, size_t end, unsigned) {
    kernels.matmul(w, tokens.a, y.data(), w.rows, static_cast<uint32_t>(begin),
                   static_cast<uint32_t>(end));
  });
}

double fastest(base::Clock clock, base::FunctionRef<void()> body) {
  double least = 0;
  for (int i = 0; i <= kRounds; ++i) {
    const double start = clock();
    body();
    const double seconds = clock() - start;
    if (i > 0 && (least == 0 || seconds < least)) least = seconds;
  }
  return std::max(least, 1e-9);
}

}  // namespace

MatmulRate measure_matmul(base::ThreadPool& pool, const kernels::Table& kernels, DType type,
                          uint32_t tokens, base::Clock clock) {
  base::Arena arena(size_t{32} << 20);
  std::vector<kernels::Matrix> copies;
  uint64_t bytes = 0;
  for (; bytes < kMatmulBytes; bytes += copies.back().data.size())
    copies.push_back(random_matrix(type, arena));
  const Tokens one(1, kernels), many(tokens, kernels);
  std::vector<float> y(size_t{tokens} * kRows);
  MatmulRate rate;
  rate.bytes_s = static_cast<double>(bytes) / fastest(clock, [&] {
                   for (const kernels::Matrix& w : copies) multiply(pool, kernels, w, one, y);
                 });
  constexpr int kRepeats = 4;
  rate.ops_s = 2.0 * kRepeats * tokens * kRows * kInputs / fastest(clock, [&] {
                 for (int i = 0; i < kRepeats; ++i) multiply(pool, kernels, copies[0], many, y);
               });
  return rate;
}

LayerOverhead measure_layer_overhead(base::ThreadPool& pool, const kernels::Table& kernels,
                                     const model::Config& config, base::Clock clock) {
  constexpr int kLayers = 32;
  const uint32_t dim = (config.dim + 31) / 32 * 32,
                 ffn = (std::max(config.ffn, dim) + 31) / 32 * 32;
  std::vector<float> x(ffn, 0.5F), y(ffn, 0.5F), weight(dim, 1.0F);
  std::vector<int8_t> q(ffn);
  std::vector<float> scale(ffn / 32);
  std::vector<int32_t> sums(ffn / 16);
  const auto quantise = [&](uint32_t inputs) {
    kernels::Activations a = {1,
                              inputs,
                              y.data(),
                              std::span(q).first(inputs),
                              std::span(scale).first(inputs / 32),
                              std::span(sums).first(inputs / 16)};
    kernels.quantise(a, {0, 1}, {0, a.groups()});
  };
  LayerOverhead overhead;
  overhead.per_token =
      fastest(clock,
              [&] {
                for (int layer = 0; layer < kLayers; ++layer) {
                  for (int norm = 0; norm < 2; ++norm) {
                    kernels.rms_norm(x.data(), weight.data(), dim, 1e-5F, y.data());
                    quantise(dim);
                  }
                  kernels.silu_mul(x.data(), x.data(), ffn, y.data());
                  quantise(ffn);
                }
              }) /
      kLayers;
  overhead.regions = fastest(clock,
                             [&] {
                               for (int i = 0; i < kLayers * kRegions; ++i)
                                 pool.run([](unsigned) {});
                             }) /
                     kLayers;
  return overhead;
}

}  // namespace kvick::plan
