// The tables of AArch64.

#include "base/check.h"
#include "kernels/table/linear.h"
#include "kernels/table/make_table.h"
#include "kernels/table/rows.h"

namespace kvick::kernels {

using base::Isa;

// Makes each table on first use, for the reason given in table_x86.cc.
const Table& table(Isa isa) {
  KVICK_CHECK(base::isa_supported(isa), "{} is not supported here", base::isa_name(isa));
  if (isa == Isa::kNeonI8mm) {
    static const Table kI8mm = make_table(isa, fill_linear_i8mm, fill_rows_neon);
    return kI8mm;
  }
  if (isa == Isa::kNeonDot) {
    static const Table kDot = make_table(isa, fill_linear_neon, fill_rows_neon);
    return kDot;
  }
  static const Table kScalar = make_table(Isa::kScalar, fill_linear_scalar, fill_rows_scalar);
  return kScalar;
}

// Products of bfloat16 are not used yet.
const Table* rounding_table(Isa) { return nullptr; }

}  // namespace kvick::kernels
