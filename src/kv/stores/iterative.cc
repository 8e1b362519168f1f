// The baseline of BMC's section II-B, which Hugging Face's dynamic cache implements: every step
// allocates memory for exactly the present rows and copies them.

#include "kv/stores/bucket.h"

namespace kvick::kv {
namespace {

constexpr Growth kGrowth = {.unit_rows = 1, .at_every_step = true};

}  // namespace

Strategy iterative_strategy() {
  return {
      .name = "iterative",
      .summary = "contiguous, reallocated and copied at every step (the usual baseline)",
      .options = {},
      .traits = {.buckets = true, .holds_old = true, .moves_rows = true},
      .make_rows = [](const Setup& setup, const Spec&) -> base::Result<std::unique_ptr<RowStore>> {
        return make_bucket_store(setup, kGrowth);
      },
      .cost = [](const Setup& setup, const Spec&, const Load& load) -> base::Result<Cost> {
        return bucket_cost(setup, kGrowth, load);
      }};
}

}  // namespace kvick::kv
