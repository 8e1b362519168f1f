// The tables of x86-64.

#include "base/check.h"
#include "kernels/probe/probe.h"
#include "kernels/table/linear.h"
#include "kernels/table/make_table.h"
#include "kernels/table/rows.h"

namespace kvick::kernels {

using base::Isa;

// Makes each table on first use only: the function that fills it may be compiled to instructions
// that this processor lacks.
const Table& table(Isa isa) {
  KVICK_CHECK(base::isa_supported(isa), "{} is not supported here", base::isa_name(isa));
  switch (isa) {
    case Isa::kScalar: {
      static const Table kScalar = make_table(isa, fill_linear_scalar, fill_rows_scalar);
      return kScalar;
    }
    case Isa::kAvx2: {
      static const Table kAvx2 = make_table(isa, fill_linear_avx2, fill_rows_avx2);
      return kAvx2;
    }
    case Isa::kAvxVnni: {
      static const Table kAvxVnni = make_table(isa, fill_linear_avx_vnni, fill_rows_avx2);
      return kAvxVnni;
    }
    case Isa::kAvx512: {
      static const Table kAvx512 = make_table(isa, fill_linear_avx512, fill_rows_avx512);
      return kAvx512;
    }
    case Isa::kAvx512Vnni: {
      static const Table kVnni = make_table(isa, fill_linear_vnni, fill_rows_vnni);
      return kVnni;
    }
    case Isa::kAvx512Bf16: {  // Cooper Lake has no VBMI
      static const Table kBf16 =
          make_table(isa, base::cpu_features().avx512_vbmi ? fill_linear_vbmi : fill_linear_vnni,
                     fill_rows_vnni);
      return kBf16;
    }
    default:
      break;
  }
  static const Table kAmx = make_table(isa, fill_linear_amx, fill_rows_amx);
  return kAmx;
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
