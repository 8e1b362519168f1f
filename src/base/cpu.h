#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvick::base {

// The instruction sets that kernels/ has code for, weakest first. Within an architecture each one
// includes all before it, except that avx512 and later do not include avx_vnni.
//   avx2         AVX2, FMA, F16C
//   avx_vnni     AVX-VNNI, and avx2                     Alder Lake and later without AVX-512
//   avx512       F, BW, DQ, VL                          Skylake-X
//   avx512_vnni  VNNI                                   Cascade Lake, Ice Lake, Tiger Lake
//   avx512_bf16  BF16                                   Cooper Lake, Zen 4
//   amx          VBMI, AMX-TILE, AMX-INT8, AMX-BF16     Sapphire Rapids
// AArch64:
//   neon_dot     NEON, DotProd                          Cortex-A76, Neoverse N1, Apple M1
//   neon_i8mm    I8MM                                   Neoverse V1 and N2, Apple M2
enum class Isa {
  kScalar,
  kAvx2,
  kAvxVnni,
  kAvx512,
  kAvx512Vnni,
  kAvx512Bf16,
  kAmx,
  kNeonDot,
  kNeonI8mm
};
// The instruction sets of the architecture that this binary is compiled for.
#if defined(__aarch64__)
inline constexpr Isa kIsas[] = {Isa::kScalar, Isa::kNeonDot, Isa::kNeonI8mm};
#else
inline constexpr Isa kIsas[] = {Isa::kScalar,     Isa::kAvx2,       Isa::kAvxVnni, Isa::kAvx512,
                                Isa::kAvx512Vnni, Isa::kAvx512Bf16, Isa::kAmx};
#endif

std::string_view isa_name(Isa isa);  // the name in the list above; "scalar" for kScalar
std::optional<Isa> isa_from_name(std::string_view name);  // the inverse, for the members of kIsas
std::string isa_names();                                  // "scalar, avx2, ... or amx"

// The features that a process may use: the processor has them and the operating system saves their
// registers.
struct CpuFeatures {
  bool avx2 = false, fma = false, f16c = false, avx_vnni = false;
  bool avx512f = false, avx512bw = false, avx512dq = false, avx512vl = false;
  bool avx512_vnni = false, avx512_bf16 = false, avx512_vbmi = false;
  bool amx = false;  // AMX-TILE, AMX-INT8 and AMX-BF16
  bool neon_dot = false, neon_i8mm = false;
};
// Returns the features that this process may use. The first call asks the operating system for
// permission to use AMX tiles in all threads of the process. Thread-safe.
const CpuFeatures& cpu_features();

bool isa_supported(Isa isa, const CpuFeatures& features = cpu_features());
Isa best_isa(const CpuFeatures& features = cpu_features());  // the strongest supported one

// Returns the number of processors that this process may run on (its affinity mask), at least 1.
unsigned available_cpus();

// Returns the processor's own name and its numbers: "Intel(R) Xeon(R) Processor, family 6, model
// 207, stepping 2". The numbers are there because many virtual machines give every processor the
// same name. ARM processors have only numbers.
std::string cpu_name();

}  // namespace kvick::base
