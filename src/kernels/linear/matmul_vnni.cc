// The linear layers with AVX-512 VNNI: a register holds 16 rows of a panel, 4 inputs of each.
//
// What bounds it, on a 3.0 GHz Emerald Rapids core (measured beside other work, the peaks too):
// 730 GOP/s of vpdpbusd, and the two ports that do it also do all else. Per group of 32 inputs,
// panel and token that is 8 vpdpbusd, a product and an addition, one more for mins and three more
// for scales of 16 inputs: at most 80, 73 and 62 % of the peak, less what unpacking takes. Fewer
// than 8 tokens convert the dot products too. Measured with a conversion always, which took 5 %,
// and panel by panel, where prompts now have three together (prompt_block_avx512.h):
//   512 tokens, 4096 x 4096:  Q8_0 466, Q4_0 452, Q4_1 428, Q4_K 426, Q5_0 414, Q6_K 336,
//                             Q2_K 315 GOP/s; F16 118 of 178 GFLOP/s
//   1 token, from memory:     Q8_0 16.7, Q4_1 16.4, Q4_K 16.1, Q6_K 15.9, F16 15.6 GB/s where a
//                             plain read gives 16.3; Q2_K 13.5, bound by unpacking
//   1 token, from L3:         Q8_0 29.0, Q4_1 29.7, Q4_K 27.6, Q6_K 28.1, F16 29.1 GB/s
// A Zen 4 core, 472 GOP/s of vpdpbusd: one operation of 512 bits a cycle for vpdpbusd,
// fused products and vpmaddubsw together; broadcasts load two a cycle, additions go elsewhere. 8 in
// 10 and 8 in 11 allow Q8_0 378 and Q4_1 343 GOP/s; 128 tokens out of L2 reach 347 and 323 to
// 332. What is left above that costs bits: mins added behind
// the sum over all groups would allow Q4_1 8 in 10 (not measured), but round differently.
// What did not help: broadcasts by intrinsics instead of in the instruction (310 instead of 400
// GOP/s for Q8_0), one prefetch step instead of two (see kAhead). Weights out of memory cost 23 to
// 29 ns a KiB on top of the arithmetic of 16 to 128 tokens, however far ahead (4 to 32 KiB) and
// however evenly they are asked for: half of the next panel during each of two tiles of tokens gave
// 408 to 417 GOP/s with 32 tokens from memory and took 2 % of what weights from L3 give. (Three
// panels together do better: q8_block_avx512.h.) Page walks may be part of it: of a virtual
// machine, 2 MiB pages and all.

#include <cstring>
#include <immintrin.h>
#include <limits>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

#if !defined(__clang__)
// g++ 12 takes the undefined vectors inside its own intrinsics for a mistake (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

KVICK_TARGET_VNNI_BEGIN
// Each needs the ones before it.
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
