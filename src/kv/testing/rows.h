#pragma once
// Rows whose values follow from a number, so that tests can compare what a store shows with what
// was written.

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/table/table.h"
#include "kv/strategy/ranges.h"

namespace kvick::kv::test {

// Returns a row's value at one place; the row is a number. The value is never 0 and may be
// negative. Always inlined, because sanitized builds inline nothing small and would spend most of a
// test's time in calls of this function.
[[gnu::always_inline]] inline float value_of(uint32_t row, uint32_t layer, uint32_t head, bool is_v,
                                             uint32_t i) {
  uint32_t x = row * 2654435761u ^ layer * 40503u ^ head * 69069u ^ (is_v ? 77777u : 0) ^ i * 1013u;
  x = (x ^ x >> 15) * 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x % 4096) + 0.5f) / 512.0f - 4.0f;
}

using Row = uint32_t;
using Rows = std::vector<Row>;

// The range differs per head; in the first heads it clips some values.
inline float test_range(const Shape& shape, uint32_t layer, uint32_t head, bool is_v) {
  return 3.5f + 0.25f * static_cast<float>(layer * shape.kv_heads + head) + (is_v ? 0.1f : 0);
}
// Returns the kernels that the stores use: those of the machine's best instruction set, or of the
// one that KVICK_ISA names.
inline const kernels::Table& tried_kernels() {
  static const kernels::Table& table = kernels::table(kernels::choose_isa().value());
  return table;
}
// Returns the scalar instruction set and that of tried_kernels().
inline std::vector<base::Isa> tried_isas() {
  std::vector<base::Isa> all = {base::Isa::kScalar};
  if (tried_kernels().isa != all[0]) all.push_back(tried_kernels().isa);
  return all;
}
inline Setup test_setup(const Shape& shape, uint64_t max_bytes = UINT64_MAX) {
  auto ranges = std::make_shared<StaticRanges>();
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      ranges->k.push_back(test_range(shape, layer, head, false));
      ranges->v.push_back(test_range(shape, layer, head, true));
    }
  return {.shape = shape,
          .ranges = ranges,
          .limits = {.max_bytes = max_bytes},
          .compute = {.store_row = tried_kernels().store_row,
                      .store_group = tried_kernels().store_group,
                      .kernels = &tried_kernels()}};
}

// Like ==, but faster in sanitized builds, where == calls a function for each byte.
inline bool are_same(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Returns the keys or values of one head, as bytes in the store's element type.
inline std::vector<std::byte> bytes_as_written(const Shape& shape, const Rows& rows, uint32_t layer,
                                               uint32_t head, bool is_v) {
  if (is_v && shape.latent) {  // values are the first elements of the keys
    Shape keys = shape;
    keys.head_dim = shape.dim(true);
    return bytes_as_written(keys, rows, layer, head, false);
  }
  const uint32_t dims = shape.dim(is_v);
  const kernels::DType type = is_v ? shape.v_type : shape.k_type;
  const float scale =
      test_range(shape, layer, head, is_v) / (type == kernels::DType::kStatic8 ? 127.0f : 32767.0f);
  const float factor = kernels::is_static(type) ? 1 / scale : 1;
  const size_t bytes = shape.row_bytes(is_v);
  std::vector<float> row(dims);
  float* const values = row.data();  // indexing the vector takes half of a sanitized run
  std::vector<std::byte> all(rows.size() * bytes);
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row number = rows[r];
    for (uint32_t i = 0; i < dims; ++i) values[i] = value_of(number, layer, head, is_v, i) * factor;
    kernels::from_f32(type, values, dims, all.data() + r * bytes);
  }
  return all;
}

// Converts rows from one element type to another, as bytes.
inline std::vector<std::byte> rewritten(const std::vector<std::byte>& bytes, kernels::DType from,
                                        kernels::DType to, uint32_t dims) {
  const size_t row_bytes = kernels::dtype_bytes(from, dims), rows = bytes.size() / row_bytes;
  const size_t new_bytes = kernels::dtype_bytes(to, dims), together = kernels::rows_together(to);
  std::vector<std::byte> all(rows * new_bytes);
  std::vector<std::byte*> at;
  std::vector<float> floats(rows * dims);
  for (size_t r = 0; r < rows; ++r) {
    kernels::to_f32(from, &bytes[r * row_bytes], dims, &floats[r * dims]);
    at.push_back(&all[r * new_bytes]);
  }
  for (size_t r = 0; r < rows; r += together)
    if (together == 1)
      kernels::from_f32(to, &floats[r * dims], dims, at[r]);
    else
      kernels::group_from_f32(to, &floats[r * dims], dims, dims, &at[r]);
  return all;
}

// Like bytes_as_written(), but the first `old` rows are old now and converted.
inline std::vector<std::byte> bytes_of(const Shape& shape, const Rows& rows, uint32_t layer,
                                       uint32_t head, bool is_v, uint32_t old = 0) {
  const auto split = rows.begin() + old;
  const auto recent = bytes_as_written(shape, Rows(split, rows.end()), layer, head, is_v);
  if (old == 0) return recent;
  std::vector<std::byte> all =
      rewritten(bytes_as_written(shape, Rows(rows.begin(), split), layer, head, is_v),
                is_v ? shape.v_type : shape.k_type,
                is_v ? shape.aging->v_type : shape.aging->k_type, shape.dim(is_v));
  all.insert(all.end(), recent.begin(), recent.end());
  return all;
}

// The inputs of Step::write for these rows.
struct LayerFloats {
  LayerFloats(const Shape& shape, std::span<const Row> rows, uint32_t layer) {
    for (const Row row : rows)
      for (uint32_t head = 0; head < shape.kv_heads; ++head)
        for (const bool is_v : {false, true})
          for (uint32_t i = 0; i < shape.kept_dim(is_v); ++i)
            (is_v ? v : k).push_back(value_of(row, layer, head, is_v, i));
  }
  std::vector<float> k, v;
};

// Writes the given fresh rows of all slots, in batch order, as a model would.
inline void write_layer(Step& step, const Shape& shape, const Rows& rows, uint32_t layer) {
  const LayerFloats floats(shape, rows, layer);
  step.write(layer, floats.k.data(), shape.latent ? nullptr : floats.v.data());
}

inline void write_all(Step& step, const Shape& shape, const Rows& rows) {
  for (uint32_t layer = 0; layer < shape.layers; ++layer) write_layer(step, shape, rows, layer);
}

}  // namespace kvick::kv::test
