// Stubs for builds without oneDNN.

#include "base/check.h"
#include "kernels/attention/bucket_attention.h"

namespace kvick::kernels {

bool bucket_attention_built() { return false; }

struct BucketAttention::Products {};

BucketAttention::BucketAttention(base::Clock clock) : clock_(clock) {}
BucketAttention::~BucketAttention() = default;

const BucketAttention::Products& BucketAttention::products(const BucketShape& shape) {
  KVICK_CHECK(false, "products of {} rows, but this is built without oneDNN", shape.rows);
  return *products_.at(shape);
}

size_t BucketAttention::prepare(const BucketShape& shape) {
  products(shape);
  return 0;
}

void BucketAttention::run(const BucketShape& shape, const BucketMemory&) { products(shape); }

BucketAttention::Compiled BucketAttention::compiled() const { return compiled_; }

}  // namespace kvick::kernels
