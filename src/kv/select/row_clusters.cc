#include "kv/select/row_clusters.h"

#include <limits>
#include <numeric>
#include <vector>

#include "kv/select/row_arithmetic.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kAtOnce = 32;  // keys whose products with all means are computed together
constexpr size_t kCacheLine = 64;

// Calls use(first row, rows) for each span of a block that has `rows` rows.
template <class Use>
void for_each_span(const ClusterShape& shape, uint32_t rows, const Use& use) {
  uint32_t first = 0;
  for (uint32_t size = shape.block; size >= shape.least_span(); size /= 2)
    if (first + size <= rows) {
      use(first, size);
      first += size;
    }
}

// Returns whether a block of `rows` rows, not full, has a span of `size` rows at row `first`.
bool has_span(uint32_t rows, uint32_t first, uint32_t size) {
  return (rows & size) != 0 && (rows & ~(2 * size - 1)) == first;
}

uint32_t in_spans(const ClusterShape& shape, uint32_t rows) {
  return rows / shape.least_span() * shape.least_span();
}

// Rows of a block as floats.
struct Rows {
  std::vector<float> keys, values;  // [rows][head_dim], [rows][v_dim]
};

Rows read(const ClusterShape& shape, const kernels::Segment& segment, uint32_t first,
          uint32_t rows) {
  const size_t k_dim = shape.head_dim, v_dim = shape.dim(true);
  Rows out;
  out.keys.resize(rows * k_dim);
  out.values.assign(rows * v_dim, 0.0F);
  std::vector<float> scratch(v_dim);
  for_each_row(segment, first, first + rows,
               [&](uint32_t row, const std::byte* k, const std::byte* v) {
                 const size_t at = row - first;
                 read_key(segment, k, std::span(out.keys).subspan(at * k_dim, k_dim));
                 add_value(segment, v, scratch, std::span(out.values).subspan(at * v_dim, v_dim));
               });
  return out;
}

// Returns the index of the mean nearest to a key, which has the largest products[i] -
// half_squares[i], where products[i] = key * mean[i] and half_squares[i] = |mean[i]|^2 / 2.
uint16_t nearest(std::span<const float> products, std::span<const float> half_squares) {
  float best = -std::numeric_limits<float>::infinity();
  size_t at = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const float closeness = products[i] - half_squares[i];
    if (closeness > best) best = closeness, at = i;
  }
  return static_cast<uint16_t>(at);
}

void assign(const kernels::Table& kernels, std::span<const float> keys, uint32_t dims,
            std::span<const float> means, std::span<uint16_t> group) {
  const size_t groups = means.size() / dims;
  std::vector<float> columns(means.size()), half_squares(groups), products(kAtOnce * groups);
  for (size_t i = 0; i < groups; ++i) {
    const float* const mean = means.data() + i * dims;
    half_squares[i] = kernels.dot(mean, mean, dims) / 2;
    for (size_t d = 0; d < dims; ++d) columns[d * groups + i] = mean[d];
  }
  for (size_t row = 0; row < group.size(); row += kAtOnce) {
    const size_t count = std::min<size_t>(kAtOnce, group.size() - row);
    kernels.dot_columns(kernels::DType::kF32, reinterpret_cast<const std::byte*>(columns.data()),
                        {.rows = groups, .stride = groups, .dims = dims}, keys.data() + row * dims,
                        count, products.data(), groups);
    for (size_t i = 0; i < count; ++i)
      group[row + i] = nearest(std::span(products).subspan(i * groups, groups), half_squares);
  }
}

// Sets each mean to the mean of its group's rows; empty groups keep theirs. counts: rows per group.
void follow(const kernels::Table& kernels, std::span<const float> rows, uint32_t dims,
            std::span<const uint16_t> group, std::span<const uint32_t> counts,
            std::span<float> means) {
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) std::fill_n(means.begin() + static_cast<ptrdiff_t>(i * dims), dims, 0.0F);
  for (size_t row = 0; row < group.size(); ++row)
    kernels.add(means.data() + group[row] * size_t{dims}, rows.data() + row * dims, dims);
  for (size_t i = 0; i < means.size(); ++i)
    if (const uint32_t count = counts[i / dims]; count > 0) means[i] /= static_cast<float>(count);
}

std::vector<uint32_t> count(std::span<const uint16_t> group, uint32_t groups) {
  std::vector<uint32_t> counts(groups);
  for (const uint16_t of : group) ++counts[of];
  return counts;
}

// Writes the groups of rows that begin at the block's row `first` into the block.
void put(const kernels::Table& kernels, const ClusterShape& shape, uint32_t first, const Rows& rows,
         std::span<const uint16_t> group, uint32_t groups, ClusterBlock block) {
  const uint32_t cluster = first / shape.cluster;
  const std::vector<uint32_t> counts = count(group, groups);
  std::vector<uint32_t> at(groups);
  std::exclusive_scan(counts.begin(), counts.end(), at.begin(), first);
  for (uint32_t i = 0; i < groups; ++i)
    block.ends()[cluster + i] = static_cast<uint16_t>(at[i] + counts[i]);
  for (uint32_t row = 0; row < group.size(); ++row)
    block.order()[at[group[row]]++] = static_cast<uint16_t>(first + row);
  const auto store = [&](std::span<const float> of, bool is_v) {
    const uint32_t dims = shape.dim(is_v);
    std::vector<float> means(size_t{groups} * dims);
    follow(kernels, of, dims, group, counts, means);
    for (uint32_t i = 0; i < groups; ++i)
      kernels.store_row(shape.mean_type(is_v), means.data() + size_t{i} * dims, dims,
                        is_v ? block.value(cluster + i) : block.key(cluster + i));
  };
  store(rows.keys, false);
  store(rows.values, true);
}

}  // namespace

size_t ClusterShape::bytes() const {
  const size_t bytes = most_clusters() * (mean_bytes(false) + mean_bytes(true)) + order_bytes();
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

uint32_t first_grouped(const ClusterShape& shape, uint32_t had, uint32_t now) {
  if (in_spans(shape, had) == in_spans(shape, now)) return had / shape.cluster * shape.cluster;
  uint32_t grouped = now;
  for_each_span(shape, now, [&](uint32_t first, uint32_t size) {
    if (!has_span(had, first, size)) grouped = std::min(grouped, first);
  });
  return grouped;
}

void group_keys(const kernels::Table& kernels, std::span<const float> keys, uint32_t head_dim,
                uint32_t groups, std::span<uint16_t> group) {
  const size_t every = group.size() / groups;
  std::vector<float> means(size_t{groups} * head_dim);
  for (size_t i = 0; i < groups; ++i)
    std::copy_n(keys.begin() + static_cast<ptrdiff_t>((i * every + every / 2) * head_dim), head_dim,
                means.begin() + static_cast<ptrdiff_t>(i * head_dim));
  assign(kernels, keys, head_dim, means, group);
  for (uint32_t round = 1; round < kGroupingRounds; ++round) {
    follow(kernels, keys, head_dim, group, count(group, groups), means);
    assign(kernels, keys, head_dim, means, group);
  }
}

void group_rows(const kernels::Table& kernels, const ClusterShape& shape,
                const kernels::Segment& segment, uint32_t begin, uint32_t had, uint32_t now,
                ClusterBlock block) {
  for_each_span(shape, now, [&](uint32_t first, uint32_t size) {
    if (has_span(had, first, size)) return;
    const Rows rows = read(shape, segment, begin + first, size);
    std::vector<uint16_t> group(size);
    group_keys(kernels, rows.keys, shape.head_dim, size / shape.cluster, group);
    put(kernels, shape, first, rows, group, size / shape.cluster, block);
  });
  const uint32_t grouped = in_spans(shape, now);
  const uint32_t from = std::max(grouped, had / shape.cluster * shape.cluster);
  for (uint32_t first = from; first < now; first += shape.cluster) {
    const uint32_t count = std::min(shape.cluster, now - first);
    put(kernels, shape, first, read(shape, segment, begin + first, count),
        std::vector<uint16_t>(count), 1, block);
  }
}

}  // namespace kvick::kv
