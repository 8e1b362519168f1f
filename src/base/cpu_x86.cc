#include <cpuid.h>
#include <cstring>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu_detect.h"

namespace kvick::base {
namespace {

// Reads CPUID itself, because clang 14's __builtin_cpu_supports does not know F16C.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// Reads CPUID itself, because g++ 12's __builtin_cpu_supports does not know AVX-VNNI.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAvxVnni = 1u << 4;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnni) != 0;
}

// Returns whether the processor has AMX tiles and the operating system saves their registers.
bool has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kOsXsave = 1u << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAll = kBf16 | kTile | kInt8;
  if ((edx & kAll) != kAll) return false;
  constexpr unsigned kTileState = 3u << 17;  // bits of XCR0: tile configuration and tile data
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState;
}

// Linux (since 5.16) saves tile data only for processes that ask for it. Threads inherit the
// permission.
bool ask_for_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

CpuFeatures detect_cpu_features() {
  __builtin_cpu_init();
  CpuFeatures found = {.avx2 = __builtin_cpu_supports("avx2") != 0,
                       .fma = __builtin_cpu_supports("fma") != 0,
                       .f16c = has_f16c(),
                       .avx_vnni = has_avx_vnni(),
                       .avx512f = __builtin_cpu_supports("avx512f") != 0,
                       .avx512bw = __builtin_cpu_supports("avx512bw") != 0,
                       .avx512dq = __builtin_cpu_supports("avx512dq") != 0,
                       .avx512vl = __builtin_cpu_supports("avx512vl") != 0,
                       .avx512_vnni = __builtin_cpu_supports("avx512vnni") != 0,
                       .avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0,
                       .avx512_vbmi = __builtin_cpu_supports("avx512vbmi") != 0};
  found.amx = found.avx512f && has_amx() && ask_for_tiles();
  return found;
}

std::string cpu_name() {
  // Leaves 0x80000002 to 0x80000004 hold 48 characters, zero-terminated, padded with spaces at
  // either end.
  char brand[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned words[4] = {};
    if (__get_cpuid(0x80000002U + i, &words[0], &words[1], &words[2], &words[3]) == 0) break;
    std::memcpy(brand + 16 * i, words, sizeof words);
  }
  std::string name = brand;
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  // Family and model each have four low bits here and more bits in the extended fields.
  const unsigned family = (eax >> 8 & 15) + ((eax >> 8 & 15) == 15 ? eax >> 20 & 255 : 0);
  const unsigned model = (eax >> 4 & 15) | (eax >> 16 & 15) << 4;
  return fmt::format("{}, family {}, model {}, stepping {}",
                     name.empty() ? "unnamed processor" : name, family, model, eax & 15);
}

}  // namespace kvick::base
