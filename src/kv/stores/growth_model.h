#pragma once
// When to grow: BMC's analytical model (section V-A, equations 1 to 8), in bytes.
//
// A context of N tokens grows T times by r = N/T rows. Growth i makes a bucket of (i+1) r rows, and
// each of the next r steps computes over all of them. A token has b bytes of keys and values over
// all layers:
//
//   copying    sum of (i+1) r b / copy_bytes_s  = b N (T+1) / (2 copy_bytes_s)
//   allocating T growth_s
//   attention  sum of r (i+1) r b / attention_bytes_s  = b N^2 (1 + 1/T) / (2 attention_bytes_s)
//
// The paper counts multiply-adds, C elements of 2 bytes each. Here both rates are measured on rows
// of the store's own element types and with the model's own groups of query heads, so they include
// the factors G and Q of equation 8. Nothing depends on the batch: each sequence grows by itself.
//
// Where a step verifies k rows of draft tokens and m of them become tokens (section VI-B, equation
// 9), there are N/m steps, so attention is divided by m. The number of growths is the same.
// attention_bytes_s includes the equation's k and beta'; it must then be measured with k rows.

#include <cstdint>

#include "kv/strategy/growth_rates.h"

namespace kvick::kv {

// Returns the seconds spent on growing and on attention over spare rows for a context of `tokens`
// tokens that grows by m = step_tokens tokens per step.
double growth_seconds(uint64_t tokens, uint64_t growths, uint64_t token_bytes,
                      const GrowthRates& rates, double step_tokens = 1);
// Returns the T of equation 6, not rounded. Where growth_s is 0 that is equation 7. step_tokens
// gives equation 9: T is proportional to the square root of N/m.
double ideal_growths(uint64_t tokens, uint64_t token_bytes, const GrowthRates& rates,
                     double step_tokens = 1);
// Returns it rounded to the nearest power of two (as a ratio), at least 1 and at most `tokens`.
uint32_t best_growths(uint32_t tokens, uint64_t token_bytes, const GrowthRates& rates,
                      double step_tokens = 1);

}  // namespace kvick::kv
