// attention_amx.cc with tiles emulated in memory, for tests on machines without AMX: the same
// operations, slower.

#include "kernels/attention/test_attention.h"

#define KVICK_EMULATED_TILES
#define fill_rows_amx fill_rows_emulated
#include "kernels/rows/attention_amx.cc"
