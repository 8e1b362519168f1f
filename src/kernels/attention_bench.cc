// attention_bench [SECONDS]: what the attention kernels of each instruction set reach here, for
// tuning. Prints GB/s of keys and values read at depth (decode) and GFLOP/s (prefill), one thread.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <random>
#include <vector>

#include "base/memory.h"
#include "kernels/rows.h"

namespace kvick::kernels {
namespace {

struct Load {
  DType dtype;
  uint32_t head_dim, group, tokens, rows,
      heads;  // heads: caches gone through in turn, to be out of the last level
};

// Seconds of one turn over all heads and chunks: the best of the turns that fit into the time.
double time_of(const Table& table, const Load& load, double seconds) {
  const size_t row_bytes = dtype_bytes(load.dtype, load.head_dim);
  base::Buffer cache(2 * row_bytes * load.rows * load.heads);
  std::mt19937 random(1);
  std::vector<float> row(load.head_dim);
  for (size_t i = 0; i < 2 * size_t{load.rows} * load.heads; ++i) {
    for (float& x : row) x = static_cast<float>(random() % 1000) * 0.002F - 1;
    table.store_row(load.dtype, row.data(), row.size(), cache.data() + i * row_bytes);
  }
  const uint32_t count = load.tokens * load.group;
  std::vector<float> q(static_cast<size_t>(count) * load.head_dim), acc(q.size()), max(count),
      sum(count);
  for (float& x : q) x = static_cast<float>(random() % 1000) * 0.002F - 1;
  const Run past{0, load.rows - load.tokens, 0}, fresh{load.rows - load.tokens, load.tokens, 0};
  const Queries queries{q.data(),
                        load.group * load.head_dim,
                        0,
                        load.tokens,
                        load.group,
                        load.head_dim,
                        1 / std::sqrt(static_cast<float>(load.head_dim))};
  double best = 1e9, total = 0;
  while (total < seconds) {
    const auto start = std::chrono::steady_clock::now();
    for (uint32_t head = 0; head < load.heads; ++head) {
      View view;
      Segment segment;
      segment.k = cache.data() + 2 * row_bytes * load.rows * head;
      segment.v = segment.k + row_bytes * load.rows;
      segment.k_stride = segment.v_stride = static_cast<uint32_t>(row_bytes);
      segment.dtype = load.dtype;
      segment.runs = {&past, 1};
      view.past.push_back(segment);
      view.fresh = segment;
      view.fresh.runs = {&fresh, 1};
      for (uint32_t chunk = 0; chunk < chunk_count(view, queries); ++chunk)
        table.attend_chunk(view, queries, chunk, {max.data(), sum.data(), acc.data()}, nullptr);
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count());
    total += spent.count();
  }
  return best;
}

void report(const Table& table, const char* isa, const Load& load, double seconds) {
  const double time = time_of(table, load, seconds);
  const double rows = static_cast<double>(load.rows) * load.heads;
  const double bytes = 2 * rows * static_cast<double>(dtype_bytes(load.dtype, load.head_dim));
  const double flops = 4 * rows * load.tokens * load.group * load.head_dim;
  fmt::print(
      "{:7} {:4} head_dim {:3} group {} tokens {:2} rows {:6}x{:<4} {:6.1f} GB/s {:6.1f} GFLOP/s\n",
      isa, dtype_info(load.dtype).name, load.head_dim, load.group, load.tokens, load.rows,
      load.heads, bytes / time * 1e-9, flops / time * 1e-9);
}

void report_all(base::Isa isa, void (*fill)(Table&), double seconds) {
  if (!base::isa_supported(isa)) return;
  Table table{};
  fill(table);
  const char* name = base::isa_name(isa).data();
  const bool slow = isa == base::Isa::kScalar;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32})
    for (const uint32_t dims : {64, 128})
      for (const uint32_t group : {1, 3, 8}) {
        // 512 MiB of float16, out of a 260 MB last level, then 1 MiB.
        const uint32_t heads = (slow ? 16U << 20 : 512U << 20) / (4096 * dims * 4);
        report(table, name, {dtype, dims, group, 1, 4096, heads}, seconds);
        report(table, name, {dtype, dims, group, 1, 1024 * 128 / dims, 2}, seconds);
      }
  for (const DType dtype : {DType::kF16, DType::kF32})
    for (const uint32_t dims : {64, 128})
      for (const uint32_t group : {1, 3, 8})
        report(table, name, {dtype, dims, group, 16, 1024, 1}, seconds);
}

}  // namespace
}  // namespace kvick::kernels

int main(int argc, char** argv) {
  using namespace kvick;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.2;
  kernels::report_all(base::Isa::kAvx512, kernels::fill_rows_avx512, seconds);
  kernels::report_all(base::Isa::kAvx2, kernels::fill_rows_avx2, seconds);
  kernels::report_all(base::Isa::kScalar, kernels::fill_rows_scalar, seconds);
}
