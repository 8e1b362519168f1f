#include "lab/measure/attention_clock.h"

namespace kvick::lab {

void AttentionClock::write(uint32_t layer, const float* k, const float* v) {
  inner_.write(layer, k, v);
}

// Views come from many threads. All of them end before see() is called.
void AttentionClock::view(const kv::Query& query, base::Arena& scratch, kernels::View& out) {
  if (!running_.load(std::memory_order_relaxed) && !running_.exchange(true)) began_ = clock_();
  inner_.view(query, scratch, out);
}

void AttentionClock::commit(const kv::Kept& kept) { inner_.commit(kept); }

void AttentionClock::see(const model::Linear&, const float*, uint32_t) {
  if (running_.exchange(false)) seconds_ += clock_() - began_;
}

}  // namespace kvick::lab
