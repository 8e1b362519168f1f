#include "kv/select/block_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kGroup = kernels::kQuadGroup;
constexpr uint32_t kMostTogether = 256;  // vectors with scales that are scored together

// Asks for a block that is read next. Blocks lie apart, so the processor does not foresee it.
void prefetch(const std::byte* block, size_t bytes) {
  for (size_t at = 0; at < bytes; at += base::kCacheLine) __builtin_prefetch(block + at, 0, 2);
}

bool has_quads(const kernels::Table& kernels, const BlockVectors::Layout& layout) {
  constexpr uint32_t kVector = 16;  // Quads::block_rows is a multiple of it
  return kernels.score_quads != nullptr && layout.type == kernels::DType::kStatic8 &&
         layout.dims % 4 == 0 && layout.dims <= kernels::kMaxQuadDims &&
         layout.per_block % kVector == 0;
}

}  // namespace

struct BlockVectors::Grouped {
  size_t count = 0;
  std::span<float> q;         // [groups][count][dimensions of the group]
  std::span<float> products;  // [count][per_block]
};

BlockVectors::BlockVectors(const kernels::Table& kernels, const Layout& layout)
    : kernels_(kernels), layout_(layout), quads_(has_quads(kernels, layout)) {
  KVICK_CHECK(!layout.scaled || layout.type == kernels::DType::kStatic8,
              "scales of vectors of type {}", kernels::dtype_info(layout.type).name);
}

uint32_t BlockVectors::groups() const { return (layout_.dims + kGroup - 1) / kGroup; }

size_t BlockVectors::scales() const {
  return layout_.offset + size_t{layout_.per_block} * layout_.dims * value_bytes();
}

size_t BlockVectors::bytes() const {
  const size_t all = layout_.scaled ? size_t{groups()} * layout_.per_block * sizeof(float) : 0;
  return scales() - layout_.offset + all;
}

std::byte* BlockVectors::at(std::byte* block, uint32_t vector, uint32_t dim) const {
  const size_t per_block = layout_.per_block;
  const size_t value =
      quads_ ? (dim / 4 * per_block + vector) * 4 + dim % 4 : dim * per_block + vector;
  return block + layout_.offset + value * value_bytes();
}

void BlockVectors::put(std::byte* block, uint32_t vector, std::span<const std::byte> values) const {
  const size_t bytes = value_bytes();
  KVICK_CHECK(!layout_.scaled && values.size() == layout_.dims * bytes, "{} bytes of a vector",
              values.size());
  for (uint32_t d = 0; d < layout_.dims; ++d)
    std::copy_n(values.data() + d * bytes, bytes, at(block, vector, d));
}

void BlockVectors::round(std::byte* block, uint32_t vector, std::span<const float> values) const {
  constexpr float kMost = 127;
  KVICK_CHECK(layout_.scaled && values.size() == layout_.dims, "{} values of a vector",
              values.size());
  for (uint32_t g = 0; g < groups(); ++g) {
    const uint32_t begin = g * kGroup, end = std::min(layout_.dims, begin + kGroup);
    float most = 0;
    bool finite = true;
    for (uint32_t d = begin; d < end; ++d) {
      most = std::max(most, std::abs(values[d]));
      finite = finite && std::isfinite(values[d]);
    }
    const float scale = finite ? most / kMost : std::numeric_limits<float>::quiet_NaN();
    for (uint32_t d = begin; d < end; ++d) {
      const float code =
          scale > 0 ? std::clamp(std::nearbyint(values[d] / scale), -kMost, kMost) : 0;
      *at(block, vector, d) = static_cast<std::byte>(static_cast<int8_t>(code));
    }
    std::memcpy(block + scales() + (g * size_t{layout_.per_block} + vector) * sizeof scale, &scale,
                sizeof scale);
  }
}

void BlockVectors::score(const RowsOfHead& rows, std::span<const kernels::Range> ranges,
                         std::span<const float> queries, base::Arena& scratch, float* scores,
                         size_t stride) const {
  const size_t count = queries.size() / layout_.dims;
  if (quads_) {
    const auto blocks = scratch.make<const std::byte*>(rows.blocks.size());
    for (uint32_t b = 0; b < blocks.size(); ++b) blocks[b] = rows.summary(b) + layout_.offset;
    return kernels_.score_quads({.blocks = blocks.data(),
                                 .block_rows = layout_.per_block,
                                 .dims = layout_.dims,
                                 .scales = layout_.scaled ? scales() - layout_.offset : 0,
                                 .ranges = ranges},
                                queries.data(), count, scores, stride);
  }
  const uint32_t per_block = layout_.per_block;
  const Grouped groups = layout_.scaled ? grouped(queries, scratch) : Grouped{};
  for (const kernels::Range& range : ranges)
    for (uint32_t at = range.begin; at < range.end;) {
      const uint32_t block = at / per_block, first = at % per_block;
      const uint32_t most = layout_.scaled ? kMostTogether : per_block;
      const uint32_t n = std::min({range.end - at, per_block - first, most});
      if (first + n == per_block && at + n < range.end)
        prefetch(rows.summary(block + 1) + layout_.offset, bytes());
      if (layout_.scaled)
        score_scaled(rows.summary(block), first, n, groups, scores, stride);
      else
        kernels_.dot_columns(layout_.type,
                             rows.summary(block) + layout_.offset + first * value_bytes(),
                             {.rows = n, .stride = per_block, .dims = layout_.dims}, queries.data(),
                             count, scores, stride);
      scores += n;
      at += n;
    }
}

BlockVectors::Grouped BlockVectors::grouped(std::span<const float> queries,
                                            base::Arena& scratch) const {
  const uint32_t dims = layout_.dims;
  const size_t count = queries.size() / dims;
  const Grouped made = {.count = count,
                        .q = scratch.make<float>(queries.size()),
                        .products = scratch.make<float>(count * layout_.per_block)};
  float* to = made.q.data();
  for (uint32_t begin = 0; begin < dims; begin += kGroup)
    for (size_t i = 0; i < count; ++i)
      to = std::copy_n(&queries[i * dims + begin], std::min(kGroup, dims - begin), to);
  return made;
}

void BlockVectors::score_scaled(const std::byte* block, uint32_t first, uint32_t n,
                                const Grouped& queries, float* scores, size_t stride) const {
  const uint32_t dims = layout_.dims, per_block = layout_.per_block;
  const size_t count = queries.count;
  // In whole vectors of the kernel, which takes the rest one by one; their products are not read.
  constexpr uint32_t kVector = 16;
  const uint32_t columns = std::min((n + kVector - 1) / kVector * kVector, per_block - first);
  const float* q = queries.q.data();
  for (uint32_t g = 0; g < groups(); ++g) {
    const uint32_t begin = g * kGroup, wide = std::min(kGroup, dims - begin);
    kernels_.dot_columns(layout_.type, block + layout_.offset + size_t{begin} * per_block + first,
                         {.rows = columns, .stride = per_block, .dims = wide}, q, count,
                         queries.products.data(), columns);
    q += count * wide;
    float scale[kMostTogether];
    std::memcpy(scale, block + scales() + (size_t{g} * per_block + first) * sizeof(float),
                n * sizeof(float));
    for (size_t i = 0; i < count; ++i) {
      const float* const products = &queries.products[i * columns];
      float* const of_query = scores + i * stride;
      for (uint32_t v = 0; v < n; ++v)
        of_query[v] = (g == 0 ? 0 : of_query[v]) + scale[v] * products[v];
    }
  }
}

}  // namespace kvick::kv
