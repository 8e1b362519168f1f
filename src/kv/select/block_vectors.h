#pragma once
// Vectors of few bits that a selector keeps in its blocks and multiplies with queries, to find the
// rows or pages that score highest: low-rank keys, and bounds of pages.

#include <span>

#include "base/memory.h"
#include "kernels/table/table.h"
#include "kv/select/selector.h"

namespace kvick::kv {

// Each block has as many vectors, which lie in columns, [dims][per_block], because dot_columns
// reads one value of many vectors at a time, or in quads (kernels::Quads).
class BlockVectors {
 public:
  struct Layout {
    uint32_t per_block = 0;                          // vectors
    uint32_t dims = 0;                               // of a vector
    kernels::DType type = kernels::DType::kStatic8;  // or F16
    // STATIC8 only: the values of each kernels::kQuadGroup dimensions of a vector are multiples of
    // a scale of their own, a float, as in q8. Otherwise codes are integers.
    bool scaled = false;
    size_t offset = 0;  // in the block, in bytes
  };
  BlockVectors(const kernels::Table& kernels, const Layout& layout);

  const Layout& layout() const { return layout_; }
  size_t bytes() const;  // in a block
  size_t value_bytes() const { return kernels::dtype_bytes(layout_.type, 1); }
  // Returns the address of dimension `dim` of a block's vector.
  std::byte* at(std::byte* block, uint32_t vector, uint32_t dim) const;

  // Store a vector of `dims` values: put() as they are, where vectors have no scales, and round()
  // where they have. Values that are not finite give their group the scale NaN, and the vector's
  // products are NaN then.
  void put(std::byte* block, uint32_t vector, std::span<const std::byte> values) const;
  void round(std::byte* block, uint32_t vector, std::span<const float> values) const;

  // Sets scores, [queries][stride], to the products of each query with the vectors of the ranges,
  // which follow each other. Vector i is in block i / per_block. queries: [queries][dims].
  void score(const RowsOfHead& rows, std::span<const kernels::Range> ranges,
             std::span<const float> queries, base::Arena& scratch, float* scores,
             size_t stride) const;

 private:
  uint32_t groups() const;
  // Offset of the scales in the block: [groups][per_block].
  size_t scales() const;
  struct Grouped;  // queries by groups of dimensions
  Grouped grouped(std::span<const float> queries, base::Arena& scratch) const;
  // Scores vectors [first, first + n) of a block that has scales and columns.
  void score_scaled(const std::byte* block, uint32_t first, uint32_t n, const Grouped& queries,
                    float* scores, size_t stride) const;

  const kernels::Table& kernels_;
  Layout layout_;
  bool quads_;
};

}  // namespace kvick::kv
