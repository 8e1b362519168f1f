// Speed of Table::matmul on one thread: matmul_bench TYPE[,TYPE...] ROWS INPUTS [ISA]
// Prints, per number of tokens, GB/s of packed weights and GOP/s (2 per weight and token). "cold"
// walks through copies of the matrix that together fill 512 MiB, so that weights come from memory
// as in decode; "warm" repeats one matrix. Several types are measured alternately, call by call,
// and each shows its GB/s relative to the first.

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

// Returns CPU time, so that other processes on this core disturb only by what they evict.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Matrix random_matrix(DType type, uint32_t rows, uint32_t inputs) {
  std::mt19937 random(1);
  std::vector<std::byte> source(dtype_bytes(type, inputs) * kPanel);
  // No NaN and no subnormal numbers, which cost a hundred cycles each.
  const bool floats = !pack_format(type).quantised;
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>((random() & 0x3b) | (floats && i % 2 == 1 ? 0x30 : 0));
  for (size_t i = 0; type == DType::kMXFP4 && i < source.size(); i += dtype_info(type).block_bytes)
    source[i] |= std::byte{0x40};  // an exponent
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

// Returns the 20th percentile of `seconds`, because other processes may use the machine.
double low(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 5];
}

enum class What { kAnswers, kRounded, kPrompts, kGatedPrompts };

// Returns enough matrices of one type to fill 512 MiB.
std::vector<Matrix> copies_of(DType type, uint32_t rows, uint32_t inputs) {
  std::vector<Matrix> copies;
  for (size_t bytes = 0; bytes < size_t{512} << 20; bytes += copies.back().data.size())
    copies.push_back(random_matrix(type, rows, inputs));
  return copies;
}

// Returns the panels of a call of about 2^26 multiplications, which is shorter than a scheduler's
// time slice.
uint32_t panels_of_call(const Matrix& w, uint32_t tokens) {
  return std::clamp((1u << 26) / (w.inputs * kPanel * tokens), std::min(8u, w.panels()),
                    w.panels());
}

// Measures the seconds of one call.
class Call {
 public:
  Call(const Table& table, const Matrix& w, uint32_t tokens, What what)
      : table_(table),
        what_(what),
        t_(tokens, w.inputs),
        gated_(what == What::kGatedPrompts ? tokens : 0, w.rows),
        y_(size_t{tokens} * w.rows) {
    table.quantise(t_.a, {0, tokens}, {0, t_.a.groups()});
    if (what == What::kRounded) table.round_inputs(t_.a, {0, tokens}, {0, t_.a.groups()});
    if (what == What::kPrompts || what == What::kGatedPrompts)
      for (uint32_t tile = 0; tile < t_.prompt.tiles(); ++tile) table.round_tile(t_.prompt, tile);
  }
  double seconds(const Matrix& m) {
    const uint32_t panels = panels_of_call(m, t_.a.tokens);
    const double start = now();
    if (what_ == What::kRounded)
      table_.matmul_rounded(m, t_.a, y_.data(), m.rows, 0, panels);
    else if (what_ == What::kPrompts)
      table_.matmul_prompt(m, t_.prompt, y_.data(), m.rows, 0, panels);
    else if (what_ == What::kGatedPrompts)  // half of two matrices: as many operations
      table_.matmul_prompt_gated(m, m, t_.prompt, gated_.prompt, 0, panels / 2);
    else
      table_.matmul(m, t_.a, y_.data(), m.rows, 0, panels);
    return now() - start;
  }

 private:
  const Table& table_;
  What what_;
  Tokens t_, gated_;
  std::vector<float> y_;
};

void measure(const Table& table, std::span<const std::vector<Matrix>> types, uint32_t tokens,
             What what) {
  Call call(table, types[0][0], tokens, what);
  std::vector<std::vector<double>> cold(types.size()), warm(types.size());
  if (tokens <= 128)
    for (size_t c = 0; c < types[0].size(); ++c)
      for (size_t i = 0; i < types.size(); ++i)
        cold[i].push_back(call.seconds(types[i][c % types[i].size()]));
  // Runs each matrix twice. The first run brings it into the near caches.
  const double until = now() + 0.3 * static_cast<double>(types.size());
  while (now() < until)
    for (size_t i = 0; i < types.size(); ++i) {
      call.seconds(types[i][0]);
      warm[i].push_back(call.seconds(types[i][0]));
    }
  double first_warm = 0, first_cold = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const Matrix& w = types[i][0];
    const uint32_t panels = panels_of_call(w, tokens);
    const double bytes = static_cast<double>(panels * w.panel_bytes) * 1e-9;
    const double ops = 2e-9 * panels * kPanel * w.inputs * tokens;
    const double rate = bytes / low(warm[i]);
    if (i == 0) first_warm = rate;
    fmt::print("  T={:<4} {:<7} warm {:7.2f} GB/s ({:.2f}) {:7.1f} GOP/s", tokens,
               dtype_info(w.dtype).name, rate, rate / first_warm, ops / low(warm[i]));
    if (!cold[i].empty()) {
      const double from_memory = bytes / low(cold[i]);
      if (i == 0) first_cold = from_memory;
      fmt::print("   cold {:7.2f} GB/s ({:.2f}) {:7.1f} GOP/s", from_memory,
                 from_memory / first_cold, ops / low(cold[i]));
    }
    fmt::print("\n");
  }
}

// Measures what one thread reads from memory, for comparison. It adds one word per line, so that
// only reading takes time.
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

bool has(const Table& table, DType type, What what) {
  if (what == What::kAnswers) return true;
  if (what == What::kRounded) return table.matmul_rounded != nullptr && has_rounded_matmul(type);
  return table.matmul_prompt != nullptr && has_prompt_matmul(type);
}

// Returns the types, or none if a name is wrong.
std::vector<DType> types_named(const std::string& names) {
  std::vector<DType> types;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const auto type = dtype_from_name(names.substr(at, end - at));
    if (!type || static_cast<int>(*type) >= kWeightTypes) return {};
    types.push_back(*type);
    at = end + 1;
  }
  return types;
}

int run(std::span<char*> args) {
  const auto types = args.size() > 3 ? types_named(args[1]) : std::vector<DType>();
  if (types.empty()) {
    fmt::print(stderr, "matmul_bench TYPE[,TYPE...] ROWS INPUTS [ISA]\n");
    return 2;
  }
  const auto rows = static_cast<uint32_t>(std::stoul(args[2]));
  const auto inputs = static_cast<uint32_t>(std::stoul(args[3]));
  measure_memory();
  std::vector<std::vector<Matrix>> matrices;
  for (const DType type : types) {
    matrices.push_back(copies_of(type, rows, inputs));
    fmt::print("{} rows {} inputs {}, {:.2f} MiB packed\n", dtype_info(type).name, rows, inputs,
               static_cast<double>(matrices.back()[0].data.size()) / (1 << 20));
  }
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    if (args.size() > 4 ? base::isa_name(isa) != args[4] : isa == base::Isa::kScalar) continue;
    const Table* const rounding = rounding_table(isa);
    const Table table = rounding != nullptr ? *rounding : kernels::table(isa);
    for (const auto& [what, title] :
         {std::pair{What::kAnswers, "answers"}, std::pair{What::kRounded, "answers, rounded"},
          std::pair{What::kPrompts, "prompts"}, std::pair{What::kGatedPrompts, "prompts, gated"}}) {
      if (!std::all_of(types.begin(), types.end(),
                       [&, w = what](DType type) { return has(table, type, w); }))
        continue;
      fmt::print("{}, {}\n", base::isa_name(isa), title);
      for (const uint32_t tokens : {1u, 2u, 4u, 8u, 16u, 32u, 128u, 512u})
        measure(table, matrices, tokens, what);
    }
  }
  return 0;
}

}  // namespace
}  // namespace kvick::kernels

int main(int argc, char** argv) { return kvick::kernels::run({argv, static_cast<size_t>(argc)}); }
