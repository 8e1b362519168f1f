// Measures the attention kernels of each instruction set, and the prompt kernel, for tuning. Prints
// GB/s of keys and values read at depth (decode) and GFLOP/s (prefill), with one thread.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <random>
#include <string_view>
#include <time.h>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "kernels/table/rows.h"

namespace kvick::kernels {
namespace {

struct Load {
  DType dtype;
  uint32_t head_dim, group, tokens, rows;
  uint32_t heads;       // caches read in turn, to exceed the last-level cache
  uint32_t window = 0;  // rows that a query sees; 0: all
  uint32_t latent = 0;  // elements of a value in latent rows; 0: rows are not latent
  float softcap = 0;
  uint32_t one_of = 1;  // on average one of this many rows is read, at random

  uint32_t v_dim() const { return latent > 0 ? latent : head_dim; }
  uint32_t rows_read() const { return window > 0 ? window + tokens - 1 : rows / one_of; }
  double row_bytes() const {
    const auto bytes = static_cast<double>(dtype_bytes(dtype, head_dim));
    return latent > 0 ? bytes : 2 * bytes;
  }
};

// Returns the CPU seconds of this thread, because the machine may be shared.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Returns runs of committed rows, on average one of `one_of`, chosen at random.
std::vector<Run> chosen_runs(uint32_t rows, uint32_t one_of) {
  if (one_of == 1) return {{0, rows, 0}};
  std::mt19937 random(2);
  std::vector<Run> runs;
  for (uint32_t row = 0; row < rows; ++row) {
    if (random() % one_of != 0) continue;
    if (!runs.empty() && runs.back().row + runs.back().rows == row)
      ++runs.back().rows;
    else
      runs.push_back({row, 1, row});
  }
  return runs;
}

// Returns the seconds of one turn over all heads and chunks: the best of the turns that fit into
// `seconds`.
double time_of(const Table& table, const Load& load, double seconds) {
  const size_t row_bytes = dtype_bytes(load.dtype, load.head_dim);
  base::Buffer cache(2 * row_bytes * load.rows * load.heads);
  std::mt19937 random(1);
  std::vector<float> row(load.head_dim);
  const size_t head_bytes = 2 * row_bytes * load.rows;
  for (size_t i = 0; i < head_bytes; i += row_bytes) {
    for (float& x : row) x = static_cast<float>(random() % 1000) * 0.002F - 1;
    table.store_row(load.dtype, row.data(), row.size(), cache.data() + i);
  }
  for (uint32_t head = 1; head < load.heads; ++head)
    std::memcpy(cache.data() + head * head_bytes, cache.data(), head_bytes);
  const uint32_t count = load.tokens * load.group;
  std::vector<float> q(static_cast<size_t>(count) * load.head_dim), max(count), sum(count);
  std::vector<float> acc(static_cast<size_t>(count) * load.v_dim());
  for (float& x : q) x = static_cast<float>(random() % 1000) * 0.002F - 1;
  const uint32_t before = load.rows - load.tokens;
  const std::vector<Run> past = chosen_runs(before, load.one_of);
  const Run fresh{before, load.tokens, before};
  const Queries queries = {.q = q.data(),
                           .q_stride = load.group * load.head_dim,
                           .tokens = load.tokens,
                           .group = load.group,
                           .k_dim = load.head_dim,
                           .v_dim = load.v_dim(),
                           .scale = 1 / std::sqrt(static_cast<float>(load.head_dim)),
                           .softcap = load.softcap,
                           .window = load.window,
                           .position = before};
  double best = 1e9, total = 0;
  while (total < seconds) {
    const double start = now();
    for (uint32_t head = 0; head < load.heads; ++head) {
      View view;
      Segment segment;
      segment.k = cache.data() + head_bytes * head;
      segment.v = load.latent > 0 ? segment.k : segment.k + row_bytes * load.rows;
      segment.k_stride = segment.v_stride = static_cast<uint32_t>(row_bytes);
      segment.k_type = segment.v_type = load.dtype;
      segment.runs = past;
      view.past.push_back(segment);
      view.fresh = segment;
      view.fresh.runs = {&fresh, 1};
      const uint32_t chunks = chunk_count(view, queries);
      for (uint32_t chunk = 0; chunk < chunks; ++chunk)
        table.attend_chunk(view, queries, chunk, {max.data(), sum.data(), acc.data()}, nullptr);
    }
    const double spent = now() - start;
    best = std::min(best, spent);
    total += spent;
  }
  return best;
}

void report(const Table& table, const char* isa, const Load& load, double seconds) {
  const double time = time_of(table, load, seconds);
  const double rows = static_cast<double>(load.rows_read()) * load.heads;
  const double flops = 2 * rows * load.tokens * load.group * (load.head_dim + load.v_dim());
  fmt::print("{:7} {:4} head_dim {:3} group {:3} tokens {:3} rows {:6}x{:<4}", isa,
             dtype_info(load.dtype).name, load.head_dim, load.group, load.tokens, load.rows,
             load.heads);
  if (load.window > 0) fmt::print(" window {:4}", load.window);
  if (load.latent > 0) fmt::print(" latent {:3}", load.latent);
  if (load.softcap > 0) fmt::print(" softcap");
  if (load.one_of > 1) fmt::print(" one of {}", load.one_of);
  fmt::print(" {:7.1f} us {:6.1f} GB/s {:6.1f} GFLOP/s\n", time / load.heads * 1e6,
             rows * load.row_bytes() / time * 1e-9, flops / time * 1e-9);
}

// Prints the bound of decode at depth: the speed at which a plain loop reads memory.
void report_read_bound() {
  base::Buffer memory(size_t{1} << 29);
  std::memset(memory.data(), 1, memory.size());
  double best = 1e9;
  uint64_t sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const double start = now();
    const auto* words = memory.as<uint64_t>();
    for (size_t i = 0; i < memory.size() / 8; i += 8)  // one word of each cache line
      sum += words[i];
    best = std::min(best, now() - start);
  }
  fmt::print("memory read: {:.1f} GB/s (sum {})\n",
             static_cast<double>(memory.size()) / best * 1e-9, sum);
}

// Compares the prompt kernel with the ordinary one, with as many queries as a task of a model has.
void report_prompts(double seconds) {
  if (!base::isa_supported(base::Isa::kAmx)) return;
  const Table answers = table(base::Isa::kAmx);
  Table prompts = answers;
  prompts.attend_chunk = answers.attend_prompt;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32})
    for (const uint32_t dims : {64, 128})
      for (const uint32_t queries : {3, 384}) {
        const Load load = {dtype, dims, 3, queries / 3, 4096, 1};
        report(answers, "answers", load, seconds);
        report(prompts, "prompts", load, seconds);
      }
}

// Compares a window over a long context with a context of the window's length (512 rows lie in two
// or three chunks). Also measures latent rows with the head counts of models, and a softcap.
void report_shapes(base::Isa isa, double seconds) {
  if (!base::isa_supported(isa)) return;
  const Table& table = kernels::table(isa);
  const char* name = base::isa_name(isa).data();
  for (const DType dtype : {DType::kF16, DType::kQ8})
    for (const uint32_t dims : {64, 256})
      for (const uint32_t tokens : {1, 16}) {
        report(table, name, {dtype, dims, 4, tokens, 511 + tokens, 32}, seconds);
        report(table, name, {dtype, dims, 4, tokens, 8192, 32, 512}, seconds);
        report(table, name, {dtype, dims, 4, tokens, 8192 + 256, 32, 512}, seconds);
      }
  report(table, name, {DType::kF16, 256, 4, 1, 512, 32, 0, 0, 50}, seconds);
  for (const DType dtype : {DType::kF16, DType::kQ8})
    for (const uint32_t group : {16, 128}) {
      report(table, name, {dtype, 576, group, 1, 1024, 2, 0, 512}, seconds);
      report(table, name, {dtype, 256, group, 1, 1024, 2}, seconds);
    }
}

// Measures decode from memory, decode from the second-level cache, and prefill.
void report_all(base::Isa isa, double seconds) {
  if (!base::isa_supported(isa)) return;
  const Table& table = kernels::table(isa);
  const char* name = base::isa_name(isa).data();
  const uint32_t bytes = isa == base::Isa::kScalar ? 1U << 24 : 1U << 29;  // of float16 caches
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kQ8, DType::kQ4})
    for (const uint32_t dims : {64, 128})
      for (const uint32_t group : {1, 3, 8}) {
        if (seconds >= 0.2)
          report(table, name, {dtype, dims, group, 1, 4096, bytes / (4096 * dims * 4)}, seconds);
        report(table, name, {dtype, dims, group, 1, 1024 * 128 / dims, 2}, seconds);
        if (seconds >= 0.2)
          report(table, name,
                 {.dtype = dtype,
                  .head_dim = dims,
                  .group = group,
                  .tokens = 1,
                  .rows = 4096,
                  .heads = bytes / (4096 * dims * 4),
                  .one_of = 4},
                 seconds);
        report(table, name, {dtype, dims, group, 16, 1024, 1}, seconds);
      }
}

}  // namespace
}  // namespace kvick::kernels

// attention_bench [SECONDS [ISA]]: seconds per line; below 0.2 the slow lines that read memory are
// left out.
int main(int argc, char** argv) {
  namespace base = kvick::base;
  namespace kernels = kvick::kernels;
  char* end = nullptr;
  const double seconds = argc > 1 ? std::strtod(argv[1], &end) : 0.2;
  if (argc > 3 || !(seconds > 0) || (end != nullptr && (end == argv[1] || *end != '\0'))) {
    fmt::print(stderr,
               "attention_bench [SECONDS [ISA]]: seconds per line, by default 0.2; below that "
               "without the slow lines that go through memory\n");
    return 2;
  }
  const std::string_view only = argc > 2 ? argv[2] : "";  // empty: all
  if (!only.empty() && !base::isa_from_name(only)) {
    fmt::print(stderr, "attention_bench: {} is no instruction set\n", only);
    return 2;
  }
  kernels::report_read_bound();
  for (const base::Isa isa : base::kIsas)
    if (only.empty() || only == base::isa_name(isa)) {
      kernels::report_all(isa, seconds);
      kernels::report_shapes(isa, seconds);
    }
  if (only.empty() || only == base::isa_name(base::Isa::kAmx)) kernels::report_prompts(seconds);
}
