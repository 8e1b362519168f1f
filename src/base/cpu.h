#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvick::base {

// The instruction sets that kernels/ has code for, weakest first.
enum class Isa { kScalar, kAvx2, kAvx512, kAmx };
inline constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

std::string_view isa_name(Isa isa);                       // "scalar", "avx2", "avx512", "amx"
std::optional<Isa> isa_from_name(std::string_view name);  // the inverse

// True if this process may run it: avx2 means AVX2+FMA+F16C; avx512 means F, BW, DQ, VL, VNNI and
// BF16; amx means avx512, AMX-TILE, AMX-INT8 and AMX-BF16, and the operating system's permission to
// use tiles, which the first call asks for, for all threads of the process. From many threads at
// once.
bool isa_supported(Isa isa);

// The strongest supported one.
Isa best_isa();

// Processors that this process may run on (its affinity mask), at least 1.
unsigned available_cpus();

// What the processor calls itself, with the numbers behind the name, for many virtual machines give
// the same name to all: "Intel(R) Xeon(R) Processor, family 6, model 207, stepping 2".
std::string cpu_name();

}  // namespace kvick::base
