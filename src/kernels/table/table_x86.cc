// The tables of x86-64.

#include "base/check.h"
#include "kernels/probe/probe.h"
#include "kernels/table/linear.h"
#include "kernels/table/make_table.h"
#include "kernels/table/rows.h"

namespace kvick::kernels {

using base::Isa;

const Table& table(Isa isa) {
  KVICK_CHECK(base::isa_supported(isa), "{} is not supported here", base::isa_name(isa));
  static const Table kScalar = make_table(Isa::kScalar, fill_linear_scalar, fill_rows_scalar);
  static const Table kAvx2 = make_table(Isa::kAvx2, fill_linear_avx2, fill_rows_avx2);
  static const Table kAvx512 = make_table(Isa::kAvx512, fill_linear_avx512, fill_rows_avx512);
  static const Table kVnni = make_table(Isa::kAvx512Vnni, fill_linear_vnni, fill_rows_vnni);
  // Cooper Lake has no VBMI.
  static const Table kBf16 = make_table(
      Isa::kAvx512Bf16, base::cpu_features().avx512_vbmi ? fill_linear_vbmi : fill_linear_vnni,
      fill_rows_vnni);
  static const Table kAmx = make_table(Isa::kAmx, fill_linear_amx, fill_rows_amx);
  const Table* tables[] = {&kScalar, &kAvx2, &kAvx512, &kVnni, &kBf16, &kAmx};
  return *tables[static_cast<size_t>(isa)];
}

const Table* rounding_table(Isa isa) {
  if (probes(isa).bf16_dot == nullptr) return nullptr;
  const auto make = [](Isa of) {
    Table made = table(of);
    fill_linear_bf16(made);
    return made;
  };
  static const Table kBf16 = make(Isa::kAvx512Bf16);
  if (isa == Isa::kAvx512Bf16) return &kBf16;
  static const Table kAmx = make(Isa::kAmx);
  return &kAmx;
}

}  // namespace kvick::kernels
