#pragma once
// Converts rows of keys and values to blocks of floats in the first-level cache, in the layout that
// attention's products read. Included inside a target region.

namespace kvick::kernels {
namespace {

// Addresses of rows at an even distance.
struct EvenRows {
  const std::byte* first;
  size_t stride;
  const std::byte* operator[](size_t i) const { return first + i * stride; }
};
// Whether N rows are at an even distance.
template <uint32_t N>
bool evenly_spaced(const std::byte* const* rows) {
  const ptrdiff_t stride = rows[N > 1 ? 1 : 0] - rows[0];
  ptrdiff_t off = 0;
  for (uint32_t i = 1; i < N; ++i) off |= (rows[i] - rows[i - 1]) ^ stride;
  return off == 0;
}

template <class V>
struct RowBlocks {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr uint32_t kKeyBlock = 4 * kLanes;  // rows of a block of keys
  // Rows converted to floats at a time: at most a key block and at most a group.
  static constexpr uint32_t kFloatRows = kKeyBlock < kRowGroup ? kKeyBlock : kRowGroup;
  static constexpr uint32_t kTransposeWork = 3;  // multiply-adds per element: see RowsAhead
  static constexpr uint32_t kBlockFloats = kMaxHeadDim * 4 * kMaxLanes;

  explicit RowBlocks(const Queries& some_queries) : queries(some_queries) {}

  const Queries& queries;
  RowsAhead ahead;
  // Keys as [k_dim][kKeyBlock] (codes: see attention_codes.h), or values as [rows][padded_dims()].
  alignas(64) float block[kBlockFloats];
  alignas(64) float floats[kFloatRows * kMaxHeadDim];  // keys before they are transposed
  // Scales of quantised rows: [k_dim/32][kKeyBlock] for a block of keys, [rows][v_dim/32] for
  // values (pairs of scale and zero point if kKivi4V). For kKivi4K see KiviKeys.
  alignas(64) float scales[kChunkRows * kMaxHeadDim / kRowGroup * 2];
  alignas(64) std::byte halves[kChunkRows * kMaxHeadDim / kRowGroup * 4];  // scales as stored

  // -- keys --
  // Calls take(rows, i) for each kLanes of n keys: rows[0], rows[1], ... are the addresses of keys
  // i, i + 1, ..., and repeat the last key past the end.
  template <class Take>
  [[gnu::always_inline]] static inline void for_vectors(const std::byte* const* keys, uint32_t n,
                                                        const Take& take) {
    for (uint32_t i = 0; i < n; i += kLanes) {
      if (i + kLanes <= n && evenly_spaced<kLanes>(keys + i)) {
        take(EvenRows{keys[i], static_cast<size_t>(keys[i + (kLanes > 1)] - keys[i])}, i);
      } else {
        const std::byte* from[kLanes];
        for (uint32_t l = 0; l < kLanes; ++l) from[l] = keys[i + l < n ? i + l : n - 1];
        take(static_cast<const std::byte* const*>(from), i);
      }
    }
  }
  // Sets block[line][i] to four bytes of codes of key i; see CodeKeys.
  template <DType T>
  void transpose_codes(const std::byte* const* keys, uint32_t n) {
    constexpr uint32_t kPieces = T == DType::kQ8 ? 2 : 1;  // pieces of 16 bytes per group
    for_vectors(
        keys, n, [&](const auto& from, uint32_t i) __attribute__((always_inline)) {
          for (uint32_t g = 0; g < queries.k_dim / kRowGroup; ++g) {
            ahead.work(kLanes * kRowGroup * kTransposeWork);
            V::template transpose<kPieces>(from, size_t{g} * kPieces * 16,
                                           block + g * kPieces * 4 * kKeyBlock + i, kKeyBlock);
          }
        });
  }
  // Sets scales[g][i] to the scale of group g of key i. Lanes from n on repeat the last key, as
  // they do in its codes. Loads two groups at a time, because most of the time goes into locating
  // them.
  template <DType T>
  void load_key_scales(const std::byte* const* keys, uint32_t n, uint32_t lanes) {
    const uint32_t groups = queries.k_dim / kRowGroup;
    const size_t offset = code_bytes(T, queries.k_dim);
    for (uint32_t g = 0; g + 2 <= groups; g += 2) {
      for (uint32_t i = 0; i < n; ++i)
        __builtin_memcpy(halves + (g * kKeyBlock + i * 2) * 2, keys[i] + offset + g * 2, 4);
      for (uint32_t i = n; i < lanes; ++i)
        __builtin_memcpy(halves + (g * kKeyBlock + i * 2) * 2, keys[n - 1] + offset + g * 2, 4);
    }
    for (uint32_t g = 0; g + 2 <= groups; g += 2)
      for (uint32_t i = 0; i < lanes; i += kLanes)
        for (uint32_t which = 0; which < 2; ++which)
          V::store(scales + (g + which) * kKeyBlock + i,
                   V::half_of_pairs(halves + (g * kKeyBlock + i * 2) * 2, which));
    if (groups % 2 == 0) return;
    float* const to = scales + (groups - 1) * kKeyBlock;
    for (uint32_t i = 0; i < lanes; ++i)
      to[i] = V::half(keys[i < n ? i : n - 1] + offset + (groups - 1) * 2);
  }
  // Sets halves[i][s] to number s of row i, one of in_row numbers that begin at byte `offset` of
  // the row. Copies two or four numbers at a time if a row has that many, because most of the time
  // goes into locating them.
  void collect_scales(const std::byte* const* from, uint32_t n, uint32_t in_row, size_t offset) {
    if (in_row == 2) {
      for (uint32_t i = 0; i < n; ++i) __builtin_memcpy(halves + i * 4, from[i] + offset, 4);
    } else if (in_row == 4) {
      for (uint32_t i = 0; i < n; ++i) __builtin_memcpy(halves + i * 8, from[i] + offset, 8);
    } else {
      for (uint32_t i = 0; i < n * in_row; ++i)
        __builtin_memcpy(halves + i * 2, from[i / in_row] + offset + i % in_row * 2, 2);
    }
  }
  // Converts a key to floats, exactly. May write up to a whole vector past its end.
  template <DType T>
  void convert_key(const std::byte* key, float* to) {
    for (uint32_t d = 0; d < queries.k_dim; d += kLanes)
      V::store(to + d, key_floats<V, T>(key, d, queries.k_dim));
  }
  // Sets block[d][i] to dimension d of key i; keys are float32.
  void transpose_keys(const std::byte* const* keys, uint32_t n) {
    for_vectors(
        keys, n, [&](const auto& from, uint32_t i) __attribute__((always_inline)) {
          for (uint32_t d = 0; d < queries.k_dim; d += 4)
            V::transpose(from, d * sizeof(float), block + d * kKeyBlock + i, kKeyBlock);
        });
  }

  // -- values --
  // Sets block[i][d] to dimension d of value i, with zeros up to a whole vector.
  template <DType T>
  void convert_values(const ValueRows<V, T>& values, uint32_t n) {
    const uint32_t dims = queries.v_dim, padded = padded_dims();
    for (uint32_t i = 0; i < n; ++i) {
      float* to = block + i * padded;
      const uint32_t whole = dims / kLanes;
      for (uint32_t r = 0; r < whole; ++r)
        V::store(to + r * kLanes, values(i, static_cast<int>(r)));
      if constexpr (kLanes > 8 && kScales<T> == 0) {
        const uint32_t d = whole * kLanes;
        if (d < dims) V::store(to + d, values.part(i, d, 8));
      }
    }
  }
  // Returns n values as stored, with the scales of quantised ones collected. latent: a value is the
  // front of its key, whose scales are stored behind the codes of the whole key.
  template <DType T>
  ValueRows<V, T> values_of(const std::byte* const* values, uint32_t n, bool latent, float scale) {
    const uint32_t in_row = queries.v_dim / kRowGroup * kScales<T>;
    if constexpr (kScales<T> != 0) {
      collect_scales(values, n, in_row, code_bytes(T, latent ? queries.k_dim : queries.v_dim));
      for (uint32_t i = 0; i < n * in_row; i += kLanes)
        V::store(scales + i, V::template load_row<DType::kF16>(halves + i * 2));
    }
    return {.rows = values,
            .dim = 0,
            .scales = kScales<T> != 0 ? scales : nullptr,
            .in_row = in_row,
            .scale = scale};
  }
  uint32_t padded_dims() const { return (queries.v_dim + kLanes - 1) / kLanes * kLanes; }
};

}  // namespace
}  // namespace kvick::kernels
