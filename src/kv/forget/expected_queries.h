#pragma once
// The queries that a sequence has had, and what they make later queries likely to attend to. Used
// by Expected Attention (expected.cc). Queries count without their rotation and multiplied by the
// scale of the logits.

#include <span>
#include <vector>

#include "base/function_ref.h"
#include "kv/contract/kv.h"
#include "kv/forget/forget_rule.h"
#include "kv/rows/row_pool.h"

namespace kvick::kv {

// The number, mean and covariance of the queries of each query head. KV heads are numbered layer *
// kv_heads + head; different ones may be changed from different threads.
class QueryMoments {
 public:
  QueryMoments() = default;
  QueryMoments(const Shape& shape, const Expectation& how);  // Throws std::bad_alloc.
  static uint64_t bytes_of(const Shape& shape, const Expectation& how);
  uint64_t bytes() const { return sizeof(float) * (floats_.size() + counts_.size()); }

  // Adds one query for each query head of a KV head. q: [group][head_dim], overwritten.
  void add(const kernels::Table& kernels, size_t head, std::span<float> q);
  // Adds a KV head's queries of another object of the same shape, which is used up.
  void take(const kernels::Table& kernels, size_t head, QueryMoments& from);

  uint32_t count(size_t head) const { return counts_[head]; }
  // g: query head of the group.
  std::span<const float> mean(size_t head, uint32_t g) const {
    return std::span(floats_).subspan(place(head, g), dim_);
  }
  // The covariance times count(): empty, the diagonal, or row after row the elements from the
  // diagonal on.
  std::span<const float> products(size_t head, uint32_t g) const {
    return std::span(floats_).subspan(place(head, g) + dim_, products_);
  }

 private:
  size_t place(size_t head, uint32_t g) const { return (head * group_ + g) * (dim_ + products_); }
  // Adds the products of the elements of x [dim_], times factor.
  void add_products(const kernels::Table& kernels, float factor, const float* x, float* to) const;

  size_t dim_ = 0, products_ = 0;
  uint32_t group_ = 0;
  std::vector<float> floats_;     // per KV head and query head: mean, products
  std::vector<uint32_t> counts_;  // per KV head
};

// The queries of one slot of a step. Those of up to kMostApart tokens are held one by one, and only
// those of kept tokens count. Of more tokens only the moments are held, rejected tokens included.
class StepQueries {
 public:
  static constexpr uint32_t kMostApart = 64;
  StepQueries(const Setup& setup, const ForgetRule& rule, uint32_t length, uint32_t fresh);
  static uint64_t bytes_of(const Shape& shape, const Expectation& how, uint32_t fresh);

  // Takes the queries of one view; later views of the same KV head, as of layers that share rows,
  // are ignored. Different KV heads may be seen from different threads.
  void see(const Setup& setup, const ForgetRule& rule, const Query& query);
  // Adds a KV head's queries to those of the sequence. May be called once per KV head.
  void keep(const Setup& setup, const ForgetRule& rule, size_t head, std::span<const uint32_t> kept,
            QueryMoments& into);

 private:
  uint32_t length_, fresh_;
  std::vector<float> turns_;   // [fresh][Expectation::turned], that undo the rotation by depth
  std::vector<float> apart_;   // [KV heads][fresh][group][head_dim], if few tokens
  QueryMoments moments_;       // otherwise
  std::vector<uint8_t> seen_;  // per KV head
};

// The head whose rows are scored, with `tokens` tokens in the sequence.
struct ExpectedHead {
  const Setup& setup;
  const ForgetRule& rule;
  const QueryMoments& queries;
  uint32_t layer = 0, head = 0, tokens = 0;
};
// Returns the floats of scratch that scoring `rows` rows needs.
size_t expected_scratch(const Shape& shape, const Expectation& how, size_t rows);
// Sets the mass of each of the head's rows, sinks excepted, to the attention expected of the next
// `future` queries. row_at(i, is_v): the key or value of the i-th row.
void expect_attention(const ExpectedHead& of,
                      base::FunctionRef<const std::byte*(uint32_t row, bool is_v)> row_at,
                      std::span<RowNote> notes, std::span<float> scratch);

}  // namespace kvick::kv
