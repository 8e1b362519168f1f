#pragma once
// Rows whose types depend on their age (Shape::aging), over any strategy that keeps rows in a
// RowStore: mixed, and KIVI ("KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache",
// sections 4.1 and 4.2, whose residual is the window). The strategy keeps the old rows, this store
// the recent ones and a step's fresh ones; docs/adr/0010-types-that-change-with-age.md.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

// The strategy and its options are for the old rows. Errors: its own, and that it cannot hold old
// rows (Traits::holds_old); the message lists the strategies that can.
base::Result<std::unique_ptr<Store>> make_aged_store(const Strategy& strategy, const Spec& spec,
                                                     const Setup& setup);
// Cost of the load if sequences grow by one token a step.
base::Result<Cost> aged_cost(const Strategy& strategy, const Spec& spec, const Setup& setup,
                             const Load& load);

}  // namespace kvick::kv
