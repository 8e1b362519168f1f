#pragma once
// Internal to kernels/: makes a table with the functions that fill its halves.

#include "kernels/table/table.h"

namespace kvick::kernels {

inline Table make_table(base::Isa isa, void (*linear)(Table&), void (*rows)(Table&)) {
  Table made{};
  made.isa = isa;
  linear(made);
  rows(made);
  return made;
}

}  // namespace kvick::kernels
