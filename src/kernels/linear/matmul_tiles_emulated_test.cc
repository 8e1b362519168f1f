// matmul_tiles.cc with tiles emulated in memory, for tests on machines without AMX: the same
// operations, slower.

#include "kernels/table/linear.h"

#define KVICK_EMULATED_TILES
#define fill_linear_tiles fill_linear_emulated
namespace kvick::kernels {
void fill_linear_emulated(Table& table);
}  // namespace kvick::kernels
#include "kernels/linear/matmul_tiles.cc"
