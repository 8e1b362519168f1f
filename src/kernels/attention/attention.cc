#include "kernels/attention/attention.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/attention/attention_rows.h"
#include "kernels/formats/cache_row.h"

namespace kvick::kernels {

void check_row_type(DType type, size_t n) {
  const bool code = is_cache_code(type) || type == DType::kKivi4V;
  KVICK_CHECK(
      code || is_static(type) || type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
      "rows of type {}", dtype_info(type).name);
  KVICK_CHECK(!code || n % kRowGroup == 0, "rows of {} values of type {}", n,
              dtype_info(type).name);
}

void check_dot_type(DType type) {
  KVICK_CHECK(dtype_info(type).block == 1, "products of rows of type {}", dtype_info(type).name);
}

void check_hadamard(size_t n, size_t block) {
  KVICK_CHECK(std::has_single_bit(block) && block >= 32 && block <= 512 && n % block == 0,
              "Hadamard transforms of {} of {} elements", block, n);
}

namespace {

void check_key_type(DType type, size_t n) {
  KVICK_CHECK(type != DType::kKivi4V, "keys of type {}", dtype_info(type).name);
  check_row_type(type, n);
}

// Throws unless keys and values of latent rows have the same type, stride and scale, and a value is
// no longer than its key.
void check_latent(const Segment& segment, const Queries& queries) {
  KVICK_CHECK(segment.k_type == segment.v_type && segment.k_stride == segment.v_stride &&
                  segment.k_scale == segment.v_scale,
              "latent keys of type {}, stride {} and values of type {}, stride {}",
              dtype_info(segment.k_type).name, segment.k_stride, dtype_info(segment.v_type).name,
              segment.v_stride);
  KVICK_CHECK(queries.v_dim <= queries.k_dim, "values of {} elements in latent rows of {}",
              queries.v_dim, queries.k_dim);
}

}  // namespace

void check_attention(const View& view, const Queries& queries) {
  for (const uint32_t dim : {queries.k_dim, queries.v_dim})
    KVICK_CHECK(dim > 0 && dim % 8 == 0 && dim <= kMaxHeadDim, "heads of {} elements", dim);
  KVICK_CHECK(queries.group > 0 && queries.group <= kMaxGroup, "group {}", queries.group);
  auto check = [&](const Segment& segment, bool fresh) {
    // Fresh rows cannot have a type that stores keys in groups, because some queries see only a
    // part of a group.
    if (rows_together(segment.k_type) == 1 || fresh)
      check_key_type(segment.k_type, queries.k_dim);
    else
      check_group_type(segment.k_type, queries.k_dim);
    check_row_type(segment.v_type, queries.v_dim);
    if (segment.v == segment.k && !segment.runs.empty()) check_latent(segment, queries);
  };
  KVICK_CHECK(queries.slopes == nullptr || (queries.window == 0 && queries.visible == nullptr),
              "slopes with a window of {} or lists of rows", queries.window);
  for (const Segment& segment : view.past) check(segment, false);
  check(view.fresh, true);
  if (view.fresh.runs.empty() || queries.visible != nullptr) return;
  const uint32_t fresh = rows_of(view.fresh);
  KVICK_CHECK(queries.first + queries.tokens <= fresh, "tokens {}+{} of {} fresh rows",
              queries.first, queries.tokens, fresh);
}

uint32_t fresh_seen(const View& view, const Queries& queries, uint32_t token) {
  const uint32_t index = queries.first + token;
  if (view.fresh.runs.empty()) return 0;
  return queries.visible != nullptr ? static_cast<uint32_t>(queries.visible[index].size())
                                    : index + 1;
}

uint32_t position_of(const Queries& queries, uint32_t t) {
  const uint32_t index = queries.first + t;
  if (queries.visible == nullptr) return queries.position + index;
  const auto path = static_cast<uint32_t>(queries.visible[index].size());
  return queries.position + (path > 0 ? path - 1 : 0);
}

uint32_t first_seen(const Queries& queries) {
  if (queries.window == 0) return 0;
  uint32_t first = position_of(queries, 0);
  for (uint32_t t = 1; queries.visible != nullptr && t < queries.tokens; ++t)
    first = std::min(first, position_of(queries, t));
  return window_begin(queries, first);
}

uint32_t first_place(const Queries& queries) {
  return first_seen(queries) / kChunkRows * kChunkRows;
}

uint32_t chunk_count(const View& view, const Queries& queries) {
  uint64_t rows = queries.position;
  if (queries.window == 0) {
    rows = 0;
    for (const Segment& segment : view.past) rows += rows_of(segment);
  }
  uint32_t fresh = 0;
  for (uint32_t token = 0; token < queries.tokens; ++token)
    fresh = std::max(fresh, fresh_seen(view, queries, token));
  const uint32_t first = first_place(queries);
  if (rows + fresh <= first) return 0;
  return static_cast<uint32_t>((rows + fresh - first + kChunkRows - 1) / kChunkRows);
}

bool has_prompt_tiles(DType k_type, DType v_type) {
  const auto is_float = [](DType type) {
    return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32;
  };
  return is_float(k_type) && is_float(v_type);
}

}  // namespace kvick::kernels
