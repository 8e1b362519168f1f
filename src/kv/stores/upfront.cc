// The baseline of BMC's section II-C: the first step of a sequence allocates and zeroes room for
// the whole context.

#include "kv/stores/bucket.h"

namespace kvick::kv {
namespace {

// With a window: room for the window and a few more rows, also at the first step.
Growth growth_of(const Setup& setup) {
  return {.unit_rows = setup.shape.max_tokens, .most_spare_rows = 64};
}

}  // namespace

Strategy upfront_strategy() {
  return {
      .name = "upfront",
      .summary = "contiguous, memory for the whole context from the first step; never copies",
      .options = {},
      .traits = {.buckets = true, .holds_old = true, .moves_rows = true},
      .make_rows = [](const Setup& setup, const Spec&) -> base::Result<std::unique_ptr<RowStore>> {
        return make_bucket_store(setup, growth_of(setup));
      },
      .cost = [](const Setup& setup, const Spec&, const Load& load) -> base::Result<Cost> {
        return bucket_cost(setup, growth_of(setup), load);
      }};
}

}  // namespace kvick::kv
