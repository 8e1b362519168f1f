#include "model/blocks/read_ahead.h"

#include <algorithm>
#include <vector>

#include "model/core/workspace.h"

namespace kvick::model {
namespace {

using kernels::Matrix;
using kernels::ReadAhead;

constexpr size_t kLeastBytes = size_t{1} << 20, kMostBytes = size_t{512} << 20;
constexpr double kLeastSeconds = 0.02;
constexpr double kGain = 1.02;
constexpr int kMostRounds = 64;  // passes for each way of prefetching

// Returns whether kernels of this set use kernels::Activations::read_ahead: plain C++ and NEON do
// not.
bool can_choose(base::Isa isa) {
  return isa != base::Isa::kScalar && isa != base::Isa::kNeonDot && isa != base::Isa::kNeonI8mm;
}

// One token's inputs for linear layers of any type with at most `most_inputs` inputs. The values do
// not matter, because no kernel's time depends on them.
class OneToken {
 public:
  OneToken(const kernels::Table& kernels, uint32_t most_inputs, uint32_t most_rows)
      : kernels_(kernels),
        x_(most_inputs, 0.5F),
        q_(most_inputs),
        scale_(most_inputs / kernels::kGroup),
        sums_(most_inputs / 16),
        rounded_(size_t{most_inputs} * sizeof(uint16_t)),
        y_(most_rows) {}

  // Returns the seconds that y = w x takes.
  double multiply(const Matrix& w, ReadAhead how, base::ThreadPool& pool, base::Clock clock) {
    kernels::Activations a = {.tokens = 1,
                              .inputs = w.inputs,
                              .x = x_.data(),
                              .q = {q_.data(), w.inputs},
                              .scale = {scale_.data(), w.inputs / kernels::kGroup},
                              .sums = {sums_.data(), w.inputs / 16},
                              .rounded = {rounded_.as<uint16_t>(), w.inputs},
                              .read_ahead = how};
    const bool rounds = takes_rounded(kernels_, w.dtype);
    rounds ? kernels_.round_inputs(a, {0, 1}, {0, a.groups()})
           : kernels_.quantise(a, {0, 1}, {0, a.groups()});
    const size_t grain = std::max<size_t>(1, w.panels() / (size_t{pool.size()} * 4));
    const double start = clock();
    pool.parallel_for(w.panels(), grain, [&](size_t begin, size_t end, unsigned) {
      const auto multiply = rounds ? kernels_.matmul_rounded : kernels_.matmul;
      multiply(w, a, y_.data(), w.rows, static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
    });
    return clock() - start;
  }

 private:
  const kernels::Table& kernels_;
  std::vector<float> x_;
  std::vector<int8_t> q_;
  std::vector<float> scale_;
  std::vector<int32_t> sums_;
  base::Buffer rounded_;
  std::vector<float> y_;
};

}  // namespace

ReadAhead choose_read_ahead(std::span<const Matrix> matrices, const kernels::Table& kernels,
                            base::ThreadPool& pool, base::Clock clock) {
  if (!can_choose(kernels.isa)) return ReadAhead::kTwice;
  uint32_t inputs = 0, rows = 0;
  size_t count = 0, bytes = 0;
  for (; count < matrices.size() && bytes < kMostBytes; ++count) {
    bytes += matrices[count].data.size();
    inputs = std::max(inputs, matrices[count].inputs);
    rows = std::max(rows, matrices[count].rows);
  }
  if (bytes < kLeastBytes) return ReadAhead::kTwice;
  matrices = matrices.first(count);
  OneToken token(kernels, inputs, rows);
  // This pass is not measured: it may read pages that were never read before.
  for (const Matrix& w : matrices) token.multiply(w, ReadAhead::kTwice, pool, clock);
  // Takes the best time of each matrix and way: another process that takes a core or the memory for
  // a while then disturbs few of the measurements.
  std::vector<double> best(count * kernels::kReadAheads, -1);
  const double start = clock();
  for (int round = 0; round == 0 || (round < kMostRounds && clock() - start < kLeastSeconds);
       ++round)
    for (size_t pass = 0; pass < kernels::kReadAheads; ++pass)
      for (size_t i = 0; i < count; ++i) {
        const size_t how = (i + pass) % kernels::kReadAheads;
        const double seconds =
            token.multiply(matrices[i], static_cast<ReadAhead>(how), pool, clock);
        double& least = best[i * kernels::kReadAheads + how];
        if (least < 0 || seconds < least) least = seconds;
      }
  double sum[kernels::kReadAheads] = {};
  for (size_t i = 0; i < best.size(); ++i) sum[i % kernels::kReadAheads] += best[i];
  const double* least = std::min_element(sum, sum + kernels::kReadAheads);
  return *least * kGain <= sum[0] ? static_cast<ReadAhead>(least - sum) : ReadAhead::kTwice;
}

}  // namespace kvick::model
