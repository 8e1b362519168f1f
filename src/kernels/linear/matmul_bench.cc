// Speed of Table::matmul on one thread: matmul_bench TYPE ROWS INPUTS [ISA]
// Prints, per number of tokens, GB/s of packed weights and GOP/s (2 per weight and token). "cold"
// walks through copies of the matrix that together fill 512 MiB, so that weights come from memory
// as in decode; "warm" repeats one matrix.

#include <algorithm>
#include <fmt/format.h>
#include <random>
#include <span>
#include <string>
#include <time.h>
#include <vector>

#include "kernels/table/linear.h"

namespace kvick::kernels {
namespace {

// Processor time, so that sharing the core with others costs no more than what they evict.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Matrix random_matrix(DType type, uint32_t rows, uint32_t inputs) {
  std::mt19937 random(1);
  std::vector<std::byte> source(dtype_bytes(type, inputs) * kPanel);
  // Neither NaN nor subnormal numbers, which cost a hundred cycles each.
  const bool floats = !pack_format(type).quantised;
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>((random() & 0x3b) | (floats && i % 2 == 1 ? 0x30 : 0));
  Matrix matrix = make_matrix(type, rows, inputs);
  for (uint32_t p = 0; p < matrix.panels(); ++p)
    pack_panels(matrix, source.data(), kPanel, p * kPanel, p, p + 1);
  return matrix;
}

struct Tokens {
  Tokens(uint32_t tokens, uint32_t inputs)
      : x(size_t{tokens} * inputs), q(x.size()), scale(x.size() / 32), sums(x.size() / 16) {
    std::mt19937 random(2);
    for (float& value : x) value = std::uniform_real_distribution<float>(-1, 1)(random);
    bfloats = base::Buffer(std::max<size_t>(1, x.size() * sizeof(uint16_t)));
    a = {tokens, inputs, x.data(), q, scale, sums, {bfloats.as<uint16_t>(), x.size()}};
    prompt = {tokens, inputs, x.data(), {}};
    rounded = base::Buffer(PromptActivations::size(tokens, inputs) * sizeof(uint16_t));
    prompt.values = {rounded.as<uint16_t>(), rounded.size() / sizeof(uint16_t)};
  }
  std::vector<float> x;
  std::vector<int8_t> q;
  std::vector<float> scale;
  std::vector<int32_t> sums;
  base::Buffer bfloats;
  Activations a;
  base::Buffer rounded;
  PromptActivations prompt;
};

// The fifth part of `seconds` that went best: others may use the machine at the same time.
double low(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 5];
}

enum class What { kAnswers, kRounded, kPrompts, kGatedPrompts };

void measure(const Table& table, const std::vector<Matrix>& copies, uint32_t tokens, What what) {
  const Matrix& w = copies[0];
  Tokens t(tokens, w.inputs);
  table.quantise(t.a, {0, tokens}, {0, t.a.groups()});
  if (what == What::kRounded) table.round_inputs(t.a, {0, tokens}, {0, t.a.groups()});
  if (what == What::kPrompts || what == What::kGatedPrompts)
    for (uint32_t tile = 0; tile < t.prompt.tiles(); ++tile) table.round_tile(t.prompt, tile);
  Tokens gated(what == What::kGatedPrompts ? tokens : 0, w.rows);
  std::vector<float> y(size_t{tokens} * w.rows);
  // Calls of about 2^26 multiplications, shorter than a scheduler's slice.
  const uint32_t panels =
      std::clamp((1u << 26) / (w.inputs * kPanel * tokens), std::min(8u, w.panels()), w.panels());
  const double bytes = static_cast<double>(panels * w.panel_bytes);
  const double ops = 2.0 * panels * kPanel * w.inputs * tokens;
  const auto once = [&](const Matrix& m) {
    const double start = now();
    if (what == What::kRounded)
      table.matmul_rounded(m, t.a, y.data(), w.rows, 0, panels);
    else if (what == What::kPrompts)
      table.matmul_prompt(m, t.prompt, y.data(), w.rows, 0, panels);
    else if (what == What::kGatedPrompts)  // half of each of two: as many operations
      table.matmul_prompt_gated(m, m, t.prompt, gated.prompt, 0, panels / 2);
    else
      table.matmul(m, t.a, y.data(), w.rows, 0, panels);
    return now() - start;
  };
  std::vector<double> cold, warm;
  if (tokens <= 128)
    for (const Matrix& m : copies) cold.push_back(once(m));
  const double until = now() + 0.3;
  while (now() < until) warm.push_back(once(w));
  const double best = low(warm);
  fmt::print("  T={:<4} warm {:7.2f} GB/s {:7.1f} GOP/s", tokens, bytes / best * 1e-9,
             ops / best * 1e-9);
  if (!cold.empty())
    fmt::print("   cold {:7.2f} GB/s {:7.1f} GOP/s", bytes / low(cold) * 1e-9,
               ops / low(cold) * 1e-9);
  fmt::print("\n");
}

// What one thread reads from memory, to compare with: one word per line, since the reading is what
// costs.
void measure_memory() {
  constexpr size_t kBytes = size_t{512} << 20, kPart = size_t{4} << 20;
  base::Buffer buffer(kBytes);
  auto* data = buffer.as<uint64_t>();
  for (size_t i = 0; i < kBytes / 8; ++i) data[i] = i;
  std::vector<double> times;
  uint64_t sum = 0;
  for (size_t part = 0; part < kBytes; part += kPart) {
    const double start = now();
    for (size_t i = part / 8; i < (part + kPart) / 8; i += 8) sum += data[i];
    times.push_back(now() - start);
  }
  fmt::print("memory read {:.2f} GB/s{}\n", kPart / low(times) * 1e-9, sum == 1 ? " " : "");
}

int run(std::span<char*> args) {
  const auto type = args.size() > 3 ? dtype_from_name(args[1]) : std::nullopt;
  if (!type) {
    fmt::print(stderr, "matmul_bench TYPE ROWS INPUTS [ISA]\n");
    return 2;
  }
  const auto rows = static_cast<uint32_t>(std::stoul(args[2]));
  const auto inputs = static_cast<uint32_t>(std::stoul(args[3]));
  measure_memory();
  std::vector<Matrix> copies;
  for (size_t bytes = 0; bytes < size_t{512} << 20; bytes += copies.back().data.size())
    copies.push_back(random_matrix(*type, rows, inputs));
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    if (args.size() > 4 ? base::isa_name(isa) != args[4] : isa == base::Isa::kScalar) continue;
    Table table = kernels::table(isa);
    if (isa >= base::Isa::kAvx512Bf16) fill_linear_bf16(table);
    fmt::print("{} {} rows {} inputs {}, {:.2f} MiB packed\n", base::isa_name(isa), args[1], rows,
               inputs, static_cast<double>(copies[0].data.size()) / (1 << 20));
    for (const auto& [what, title] :
         {std::pair{What::kAnswers, "answers"}, std::pair{What::kRounded, "answers, rounded"},
          std::pair{What::kPrompts, "prompts"}, std::pair{What::kGatedPrompts, "prompts, gated"}}) {
      const bool rounded = table.matmul_rounded != nullptr && has_rounded_matmul(*type);
      const bool prompts = table.matmul_prompt != nullptr && has_prompt_matmul(*type);
      if (what != What::kAnswers && !(what == What::kRounded ? rounded : prompts)) continue;
      fmt::print("{}\n", title);
      for (const uint32_t tokens : {1u, 2u, 4u, 8u, 16u, 32u, 128u, 512u})
        measure(table, copies, tokens, what);
    }
  }
  return 0;
}

}  // namespace
}  // namespace kvick::kernels

int main(int argc, char** argv) { return kvick::kernels::run({argv, static_cast<size_t>(argc)}); }
