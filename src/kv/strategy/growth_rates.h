#pragma once
// The measured costs of growing a cache on one machine, for the model of stores/growth_model.h.

namespace kvick::kv {

struct GrowthRates {
  double copy_bytes_s = 0;  // bytes of a new bucket copied and cleared per second
  double growth_s = 0;      // fixed seconds per growth (C0)
  // Bytes of a bucket that a step attends to per second, spare rows included; 0: spare rows cost
  // nothing because attention skips them.
  double attention_bytes_s = 0;
};

}  // namespace kvick::kv
