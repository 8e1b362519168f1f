#pragma once
// Rows grouped by their keys, for the policy `clusters` (clusters.cc): which rows are in which
// group, and each group's mean key and mean value.
//
// A sequence is cut into blocks of ClusterShape::block rows, and k-means groups the rows of a
// block. While a block fills, its rows are grouped in spans whose sizes are powers of two: 448 rows
// are a span of 256, one of 128 and one of 64. The newest rows, too few for the smallest span, are
// grouped by their order. A span's groups depend only on its rows, not on the steps that added
// them. When spans merge into one of twice the size, its rows are grouped anew: in total at most
// twice the work of grouping each full block once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/table/table.h"
#include "kv/select/selector.h"

namespace kvick::kv {

// Sizes of one block, in rows: powers of two.
struct ClusterShape {
  uint32_t head_dim = 0;
  uint32_t cluster = 8;  // average rows of a group
  uint32_t block = 512;
  uint32_t v_dim = 0;  // of a value; 0: head_dim

  static constexpr uint32_t kLeastClusters = 8;  // minimum per span

  uint32_t least_span() const { return kLeastClusters * cluster; }
  // Returns the number of clusters of a block with `rows` rows.
  uint32_t clusters_of(uint32_t rows) const { return (rows + cluster - 1) / cluster; }
  uint32_t most_clusters() const { return block / cluster; }
  uint32_t dim(bool is_v) const { return is_v && v_dim != 0 ? v_dim : head_dim; }
  // q8 where it can hold a mean, which halves what attention to the means reads.
  kernels::DType mean_type(bool is_v) const {
    constexpr uint32_t kGroup = 32;
    return dim(is_v) % kGroup == 0 ? kernels::DType::kQ8 : kernels::DType::kF16;
  }
  size_t mean_bytes(bool is_v) const { return kernels::dtype_bytes(mean_type(is_v), dim(is_v)); }
  // Bytes of ClusterBlock::order() and ends() together.
  size_t order_bytes() const { return (size_t{block} + most_clusters()) * sizeof(uint16_t); }
  // Bytes of a ClusterBlock, a multiple of a cache line.
  size_t bytes() const;
};

// A view of one block of one layer and head; the caller owns the memory. Group i of the span that
// begins at row r is the block's group r / cluster + i.
class ClusterBlock {
 public:
  ClusterBlock(const ClusterShape& shape, std::byte* memory) : shape_(&shape), memory_(memory) {}

  std::byte* key(uint32_t cluster) const { return memory_ + cluster * shape_->mean_bytes(false); }
  std::byte* value(uint32_t cluster) const {
    return key(shape_->most_clusters()) + cluster * shape_->mean_bytes(true);
  }
  // Rows of the block, group after group, ascending within a group.
  uint16_t* order() const { return reinterpret_cast<uint16_t*>(value(shape_->most_clusters())); }
  // The end of each group in order(). A group may be empty.
  uint16_t* ends() const { return order() + shape_->block; }
  std::span<const uint16_t> rows_of(uint32_t cluster) const {
    const uint16_t begin = cluster == 0 ? uint16_t{0} : ends()[cluster - 1];
    return {order() + begin, order() + ends()[cluster]};
  }

 private:
  const ClusterShape* shape_;
  std::byte* memory_;
};

// Returns the first row of a block that must be read when it grows from `had` rows to `now`.
uint32_t first_grouped(const ClusterShape& shape, uint32_t had, uint32_t now);

// Updates the block that begins at the sequence's row `begin` after it grew from `had` rows, which
// are grouped already, to `now` rows. segment: rows from first_grouped() on.
void group_rows(const kernels::Table& kernels, const ClusterShape& shape,
                const kernels::Segment& segment, uint32_t begin, uint32_t had, uint32_t now,
                ClusterBlock block);

// Sets group[i], the group of keys[i], by k-means; keys: [rows][head_dim]. The first means are the
// keys of evenly spaced rows. Then, kGroupingRounds times, each key is assigned to the nearest mean
// and the means are recomputed. Deterministic; keys that are not finite go to an arbitrary group.
inline constexpr uint32_t kGroupingRounds = 3;
void group_keys(const kernels::Table& kernels, std::span<const float> keys, uint32_t head_dim,
                uint32_t groups, std::span<uint16_t> group);

}  // namespace kvick::kv
