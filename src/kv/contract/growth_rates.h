#pragma once
// What growing a cache costs on a machine, for the model of stores/growth_model.h.

namespace kvick::kv {

struct GrowthRates {
  double copy_bytes_s = 0;       // bytes of a new bucket, moved and cleared
  double growth_s = 0;           // of one growth, besides (C0)
  double attention_bytes_s = 0;  // of a step, bytes of a bucket, spare rows like others; 0: none is
                                 // spent on spare ones, since attention knows how many there are
};

}  // namespace kvick::kv
