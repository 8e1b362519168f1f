#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvick::base {

// The instruction sets that kernels/ has code for, weakest first.
enum class Isa { kScalar, kAvx2, kAvx512 };

std::string_view isa_name(Isa isa);                       // "scalar", "avx2", "avx512"
std::optional<Isa> isa_from_name(std::string_view name);  // the inverse

// True if this processor runs it: avx2 means AVX2+FMA+F16C; avx512 means F, BW, DQ, VL, VNNI and
// BF16.
bool isa_supported(Isa isa);

// The strongest supported one.
Isa best_isa();

// Processors that this process may run on (its affinity mask), at least 1.
unsigned available_cpus();

// What the processor calls itself, with the numbers behind the name, for many virtual machines give
// the same name to all: "Intel(R) Xeon(R) Processor, family 6, model 207, stepping 2".
std::string cpu_name();

}  // namespace kvick::base
