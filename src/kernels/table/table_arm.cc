// The tables of AArch64.

#include "base/check.h"
#include "kernels/table/linear.h"
#include "kernels/table/make_table.h"
#include "kernels/table/rows.h"

namespace kvick::kernels {

using base::Isa;

const Table& table(Isa isa) {
  KVICK_CHECK(base::isa_supported(isa), "{} is not supported here", base::isa_name(isa));
  static const Table kScalar = make_table(Isa::kScalar, fill_linear_scalar, fill_rows_scalar);
  static const Table kDot = make_table(Isa::kNeonDot, fill_linear_neon, fill_rows_neon);
  static const Table kI8mm = make_table(Isa::kNeonI8mm, fill_linear_i8mm, fill_rows_neon);
  if (isa == Isa::kScalar) return kScalar;
  return isa == Isa::kNeonDot ? kDot : kI8mm;
}

// Products of bfloat16 are not used yet.
const Table* rounding_table(Isa) { return nullptr; }

}  // namespace kvick::kernels
