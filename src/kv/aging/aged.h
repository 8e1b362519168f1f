#pragma once
// Rows whose types depend on their age (Shape::aging), over any strategy that keeps rows in a
// RowStore: mixed, and KIVI ("KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache",
// sections 4.1 and 4.2, whose residual is the window). The strategy keeps the old rows; this store
// keeps the recent rows and a step's fresh rows; docs/adr/0010-types-that-change-with-age.md.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

// Makes a store whose old rows are kept by the strategy, with its options `spec`. Errors: the
// strategy's own, or that it cannot hold old rows (Traits::holds_old); the message lists the
// strategies that can.
base::Result<std::unique_ptr<Store>> make_aged_store(const Strategy& strategy, const Spec& spec,
                                                     const Setup& setup);
// Returns the cost of a load whose sequences grow by one token per step.
base::Result<Cost> aged_cost(const Strategy& strategy, const Spec& spec, const Setup& setup,
                             const Load& load);

}  // namespace kvick::kv
