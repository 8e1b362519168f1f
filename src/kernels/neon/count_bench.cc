// tools/count_instructions runs this under qemu: count_bench TYPE ISA TOKENS CALLS multiplies one
// panel of 2048 inputs with TOKENS tokens CALLS times. Prints the bytes that the panel has in a
// file.

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <string>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

int run(std::span<char*> args) {
  if (args.size() != 5) {
    fmt::print(stderr, "count_bench TYPE ISA TOKENS CALLS\n");
    return 2;
  }
  const auto type = dtype_from_name(args[1]);
  const auto isa = base::isa_from_name(args[2]);
  if (!type || !isa || !base::isa_supported(*isa)) {
    fmt::print(stderr, "no {} or no {} here\n", args[1], args[2]);
    return 2;
  }
  constexpr uint32_t kInputs = 2048;
  const auto tokens = static_cast<uint32_t>(std::stoul(args[3]));
  Matrix matrix = make_matrix(*type, kPanel, kInputs);
  std::memset(matrix.data.data(), 0, matrix.data.size());
  std::vector<float> x(size_t{tokens} * kInputs, 1), scale(x.size() / kGroup), y(tokens * kPanel);
  std::vector<int8_t> q(x.size());
  std::vector<int32_t> sums(x.size() / 16);
  Activations a = {tokens, kInputs, x.data(), q, scale, sums};
  const Table& table = kernels::table(*isa);
  table.quantise(a, {0, tokens}, {0, a.groups()});
  for (unsigned long call = std::stoul(args[4]); call > 0; --call)
    table.matmul(matrix, a, y.data(), kPanel, 0, 1);
  fmt::print("{}\n", dtype_bytes(*type, size_t{kPanel} * kInputs));
  return 0;
}

}  // namespace
}  // namespace kvick::kernels

int main(int argc, char** argv) { return kvick::kernels::run({argv, static_cast<size_t>(argc)}); }
