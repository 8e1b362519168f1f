#pragma once
// When to grow: BMC's analytical model (section V-A, equations 1 to 8), in bytes.
//
// A context of N tokens grows T times by r = N/T rows. Growth i makes a bucket of (i+1) r rows, and
// each of the r steps that follow computes over all of them. With b bytes of keys and values a
// token, over all layers:
//
//   copying    sum of (i+1) r b / copy_bytes_s              = b N (T+1) / (2 copy_bytes_s)
//   allocating T growth_s
//   attention  sum of r (i+1) r b / attention_bytes_s       = b N^2 (1 + 1/T) / (2
//   attention_bytes_s)
//
// The seed counts multiply-adds, C elements of 2 bytes each; since both rates are measured here on
// rows of the store's own element types and by the model's own groups of query heads, equation 8's
// factors G and Q are in them. Nothing depends on the batch: each sequence grows by itself.
//
// Where a step verifies k rows of draft tokens and m of them become tokens (section VI-B, equation
// 9), there are N/m steps, so attention is divided by m. Their number of growths is the same. The k
// and beta' of the equation are in attention_bytes_s, which is then to be measured with k rows.

#include <cstdint>

#include "kv/strategy/growth_rates.h"

namespace kvick::kv {

// Seconds that growing and the attention over spare rows take until `tokens` are there, by m =
// step_tokens a step.
double growth_seconds(uint64_t tokens, uint64_t growths, uint64_t token_bytes,
                      const GrowthRates& rates, double step_tokens = 1);
// The T of equation 6, not rounded: of equation 7 where growth_s is 0; of equation 9, which is in
// proportion to the root of N/m.
double ideal_growths(uint64_t tokens, uint64_t token_bytes, const GrowthRates& rates,
                     double step_tokens = 1);
// Rounded to the nearest power of two (as a ratio), at least 1 and at most `tokens`.
uint32_t best_growths(uint32_t tokens, uint64_t token_bytes, const GrowthRates& rates,
                      double step_tokens = 1);

}  // namespace kvick::kv
