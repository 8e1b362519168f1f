#include "kv/values/usage.h"

#include <algorithm>

namespace kvick::kv {

void Usage::add(const Usage& other) {
  used_bytes += other.used_bytes;
  allocated_bytes += other.allocated_bytes;
  wasted_bytes += other.wasted_bytes;
  shared_bytes += other.shared_bytes;
  cached_bytes += other.cached_bytes;
  evicted_bytes += other.evicted_bytes;
  slow_bytes += other.slow_bytes;
  copied_bytes += other.copied_bytes;
  page_bytes = std::max(page_bytes, other.page_bytes);
  slow_read_bytes += other.slow_read_bytes;
  slow_written_bytes += other.slow_written_bytes;
  fallbacks += other.fallbacks;
  metadata_bytes += other.metadata_bytes;
  read_bytes += other.read_bytes;
  checks += other.checks;
  lost_mass += other.lost_mass;
  checkpoints += other.checkpoints;
  checkpoint_bytes += other.checkpoint_bytes;
  resumed += other.resumed;
  sequences += other.sequences;
}

}  // namespace kvick::kv
