// The linear layers with AVX-512 VNNI: a register holds 16 rows of a panel, 4 inputs of each.
//
// Bounds on a 3.0 GHz Emerald Rapids core (measured beside other work, the peaks too): 730 GOP/s of
// vpdpbusd, on two ports that also do everything else. A group of 32 inputs, a panel and a token
// take 8 vpdpbusd, a product and an addition, one more operation for mins and three more for scales
// of 16 inputs. So at most 80, 73 and 62 % of the peak are possible, less the time of unpacking.
// With fewer than 8 tokens the dot products are converted, too. The following was measured with a
// conversion always, which took 5 %, and panel by panel, although prompts now take three panels
// together (prompt_block_avx512.h):
//   512 tokens, 4096 x 4096:  Q8_0 466, Q4_0 452, Q4_1 428, Q4_K 426, Q5_0 414, Q6_K 336,
//                             Q2_K 315 GOP/s; F16 118 of 178 GFLOP/s
//   1 token, from memory:     Q8_0 16.7, Q4_1 16.4, Q4_K 16.1, Q6_K 15.9, F16 15.6 GB/s where a
//                             plain read gives 16.3; Q2_K 13.5, bound by unpacking
//   1 token, from L3:         Q8_0 29.0, Q4_1 29.7, Q4_K 27.6, Q6_K 28.1, F16 29.1 GB/s
// A Zen 4 core, 472 GOP/s of vpdpbusd: one operation of 512 bits per cycle for vpdpbusd, fused
// products and vpmaddubsw together; two broadcasts are loaded per cycle, and additions use other
// ports. 8 in 10 and 8 in 11 operations allow Q8_0 378 and Q4_1 343 GOP/s; 128 tokens with weights
// in L2 reach 347 and 323 to 332. More would change the bits: adding mins after the sum over all
// groups would allow Q4_1 8 in 10 (not measured), but round differently.
// What did not help: broadcasts by intrinsics instead of in the instruction (310 instead of 400
// GOP/s for Q8_0), one prefetch step instead of two (see kAhead). Weights from memory cost 23 to 29
// ns per KiB on top of the arithmetic of 16 to 128 tokens, however far ahead (4 to 32 KiB) and
// however evenly they are prefetched: half of the next panel during each of two tiles of tokens
// gave 408 to 417 GOP/s with 32 tokens from memory, and cost 2 % with weights from L3. (Three
// panels together do better: q8_block_avx512.h.) Page walks may be part of it, on this virtual
// machine and even with 2 MiB pages.

#include <cstring>
#include <immintrin.h>
#include <limits>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

#if !defined(__clang__)
// g++ 12 warns of undefined vectors inside its own intrinsics (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

KVICK_TARGET_VNNI_BEGIN
// Each header needs the ones before it.
// clang-format off
#include "kernels/linear/dots_vnni.h"
#include "kernels/linear/matmul_avx512_impl.h"
#include "kernels/linear/functions_avx512.h"
// clang-format on
KVICK_TARGET_END

namespace kvick::kernels {

const PanelFunctions& vnni_panel_functions() { return kFunctions; }

void fill_linear_vnni(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels
