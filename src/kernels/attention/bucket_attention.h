#pragma once
// Attention as BMC computes it ("Striking the Right Balance between Compute and Copy", sections
// II-C and V-B): two batched matrix products of a library over a whole bucket. A bias of -1e9 takes
// its spare rows out of the softmax. The library is oneDNN, which compiles its products for each
// shape; that time is counted separately. For float32 rows only: oneDNN 2.6 multiplies no other
// type with float32.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "kernels/attention/attention.h"

namespace kvick::kernels {

// Whether this kvick is built with oneDNN. If not, products throw base::Bug (KVICK_CHECK).
bool bucket_attention_built();

// The bias of a row that a query does not see.
inline constexpr float kUnseen = -1e9F;

// Whether these products can serve the queries. The caller expresses windows by the bias, but the
// library's softmax has neither softcap nor sinks.
inline bool bucket_attention_serves(const Queries& queries) {
  return queries.softcap == 0 && queries.sinks == nullptr;
}

// Sizes of one product, in elements.
struct BucketShape {
  uint32_t heads = 0;    // KV heads
  uint32_t queries = 0;  // of each head
  uint32_t rows = 0;     // of the bucket
  uint32_t k_dim = 0;    // also the elements from one key to the next
  uint32_t v_dim = 0;
  uint32_t v_stride = 0;  // elements from one value to the next: v_dim, or k_dim of latent rows
  uint64_t k_head_stride = 0;  // from one head's keys to the next's
  uint64_t v_head_stride = 0;  // from one head's values to the next's
  bool one_bias = false;       // one bias [rows] for all queries, else [queries][rows]
  float scale = 1;             // of the logits
  auto operator<=>(const BucketShape&) const = default;
};

struct BucketMemory {
  const float* q = nullptr;      // [heads][queries][k_dim]
  const float* k = nullptr;      // head h, row r: k + h * k_head_stride + r * k_dim
  const float* v = nullptr;      // head h, row r: v + h * v_head_stride + r * v_stride
  const float* bias = nullptr;   // 0 or kUnseen; see BucketShape::one_bias
  float* logits = nullptr;       // [heads][queries][rows], overwritten
  float* out = nullptr;          // [heads][queries][v_dim]
  std::byte* scratch = nullptr;  // as many bytes as prepare() returned, aligned to a cache line
};

// The compiled products of all shapes used so far. May be shared by threads.
class BucketAttention {
 public:
  explicit BucketAttention(base::Clock clock = base::steady_seconds);
  ~BucketAttention();

  // Compiles the products of a shape unless already done. Returns the bytes of
  // BucketMemory::scratch.
  size_t prepare(const BucketShape& shape);
  // out = softmax(scale * q k^T + bias) v, on the calling thread.
  void run(const BucketShape& shape, const BucketMemory& memory);

  struct Compiled {
    uint64_t shapes = 0;
    double seconds = 0;
  };
  Compiled compiled() const;

 private:
  struct Products;
  const Products& products(const BucketShape& shape);

  base::Clock clock_;
  mutable std::mutex mutex_;
  std::map<BucketShape, std::unique_ptr<Products>> products_;
  Compiled compiled_;
};

}  // namespace kvick::kernels
