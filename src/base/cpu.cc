#include "base/cpu.h"

#include <algorithm>
#include <iterator>

#include "base/cores.h"
#include "base/cpu_detect.h"

namespace kvick::base {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avx_vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
    case Isa::kNeonDot:
      return "neon_dot";
    case Isa::kNeonI8mm:
      return "neon_i8mm";
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

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFeatures = detect_cpu_features();
  return kFeatures;
}

bool isa_supported(Isa isa, const CpuFeatures& f) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return f.avx2 && f.fma && f.f16c;
    case Isa::kAvxVnni:
      return isa_supported(Isa::kAvx2, f) && f.avx_vnni;
    case Isa::kAvx512:
      return isa_supported(Isa::kAvx2, f) && f.avx512f && f.avx512bw && f.avx512dq && f.avx512vl;
    case Isa::kAvx512Vnni:
      return isa_supported(Isa::kAvx512, f) && f.avx512_vnni;
    case Isa::kAvx512Bf16:
      return isa_supported(Isa::kAvx512Vnni, f) && f.avx512_bf16;
    case Isa::kAmx:
      return isa_supported(Isa::kAvx512Bf16, f) && f.avx512_vbmi && f.amx;
    case Isa::kNeonDot:
      return f.neon_dot;
    case Isa::kNeonI8mm:
      return isa_supported(Isa::kNeonDot, f) && f.neon_i8mm;
  }
  return false;
}

Isa best_isa(const CpuFeatures& features) {
  return *std::find_if(std::rbegin(kIsas), std::rend(kIsas),
                       [&](Isa isa) { return isa_supported(isa, features); });
}

unsigned available_cpus() {
  return static_cast<unsigned>(std::max<size_t>(1, allowed_processors().size()));
}

}  // namespace kvick::base
