#include "base/cpu.h"

#include <algorithm>
#include <cpuid.h>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kvick::base {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Isa isa : kIsas)
    if (isa_name(isa) == name) return isa;
  return std::nullopt;
}

std::string isa_names() {
  std::string names;
  for (const Isa isa : kIsas) {
    if (isa != kIsas[0]) names += isa == std::end(kIsas)[-1] ? " or " : ", ";
    names += isa_name(isa);
  }
  return names;
}

namespace {

// Asked of the processor itself, as clang 14's __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// Tiles: does the processor have them, and does the system save their registers?
bool has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kOsXsave = 1u << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAll = kBf16 | kTile | kInt8;
  if ((edx & kAll) != kAll) return false;
  constexpr unsigned kTileState = 3u << 17;  // of XCR0: configuration and data
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState;
}

// Linux (since 5.16) saves tile data only for processes that asked; threads inherit the permission.
bool ask_for_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures detect() {
  __builtin_cpu_init();
  CpuFeatures found = {.avx2 = __builtin_cpu_supports("avx2") != 0,
                       .fma = __builtin_cpu_supports("fma") != 0,
                       .f16c = has_f16c(),
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

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFeatures = detect();
  return kFeatures;
}

bool isa_supported(Isa isa, const CpuFeatures& f) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return f.avx2 && f.fma && f.f16c;
    case Isa::kAvx512:
      return isa_supported(Isa::kAvx2, f) && f.avx512f && f.avx512bw && f.avx512dq && f.avx512vl;
    case Isa::kAvx512Vnni:
      return isa_supported(Isa::kAvx512, f) && f.avx512_vnni;
    case Isa::kAvx512Bf16:
      return isa_supported(Isa::kAvx512Vnni, f) && f.avx512_bf16;
    case Isa::kAmx:
      return isa_supported(Isa::kAvx512Bf16, f) && f.avx512_vbmi && f.amx;
  }
  return false;
}

Isa best_isa(const CpuFeatures& features) {
  return *std::find_if(std::rbegin(kIsas), std::rend(kIsas),
                       [&](Isa isa) { return isa_supported(isa, features); });
}

unsigned available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

std::string cpu_name() {
  // Leaves 0x80000002 to 4: 48 characters, zero-terminated, padded with spaces at either end.
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
  // The low four bits each of family and model, continued in the extended fields.
  const unsigned family = (eax >> 8 & 15) + ((eax >> 8 & 15) == 15 ? eax >> 20 & 255 : 0);
  const unsigned model = (eax >> 4 & 15) | (eax >> 16 & 15) << 4;
  return fmt::format("{}, family {}, model {}, stepping {}",
                     name.empty() ? "unnamed processor" : name, family, model, eax & 15);
}

}  // namespace kvick::base
