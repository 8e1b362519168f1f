#pragma once
// Rows of keys and values as blocks of floats in the first-level cache, in the shape in which
// attention's products read them. Included inside a target region.

namespace kvick::kernels {
namespace {

// Rows by their addresses, at an even distance.
struct EvenRows {
  const std::byte* first;
  size_t stride;
  const std::byte* operator[](size_t i) const { return first + i * stride; }
};
// N of them: whether they are.
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
  // Rows that are made floats together: at most a block, at most a group.
  static constexpr uint32_t kFloatRows = kKeyBlock < kRowGroup ? kKeyBlock : kRowGroup;
  static constexpr uint32_t kTransposeWork = 3;  // of an element, in products: see RowsAhead
  static constexpr uint32_t kBlockFloats = kMaxHeadDim * 4 * kMaxLanes;

  explicit RowBlocks(const Queries& some_queries) : queries(some_queries) {}

  const Queries& queries;
  RowsAhead ahead;
  // Keys as [k_dim][kKeyBlock] (of codes: see attention_codes.h), or values as
  // [rows][padded_dims()].
  alignas(64) float block[kBlockFloats];
  alignas(64) float floats[kFloatRows * kMaxHeadDim];  // keys before they are transposed
  // Of quantised rows: [k_dim/32][kKeyBlock] for a block of keys, [rows][v_dim/32] for values, of
  // kKivi4V pairs of scale and zero point; of kKivi4K see KiviKeys.
  alignas(64) float scales[kChunkRows * kMaxHeadDim / kRowGroup * 2];
  alignas(64) std::byte halves[kChunkRows * kMaxHeadDim / kRowGroup * 4];  // as they lie in rows

  // -- keys --
  // take(rows, i): kLanes of n keys from key i on, by their addresses rows[0], rows[1], ...; behind
  // the last key copies of it.
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
  // block[line][i] = four codes of key i; see CodeKeys.
  template <DType T>
  void transpose_codes(const std::byte* const* keys, uint32_t n) {
    constexpr uint32_t kPieces = T == DType::kQ8 ? 2 : 1;  // of 16 bytes, in a group
    for_vectors(
        keys, n, [&](const auto& from, uint32_t i) __attribute__((always_inline)) {
          for (uint32_t g = 0; g < queries.k_dim / kRowGroup; ++g) {
            ahead.work(kLanes * kRowGroup * kTransposeWork);
            V::template transpose<kPieces>(from, size_t{g} * kPieces * 16,
                                           block + g * kPieces * 4 * kKeyBlock + i, kKeyBlock);
          }
        });
  }
  // Scales of n keys, one lane each: of group g at scales[g][i]. Unused lanes, from n on, repeat
  // the last key: so do its codes. Two groups at a time: most of the time goes into finding them.
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
  // halves[i][s] = number s of row i, one of in_row numbers that begin at byte `offset` of the row.
  // Two or four numbers are copied at a time if there are enough: most of the time goes into
  // finding them.
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
  // A key as floats, which is exact. A whole vector may be written past its end.
  template <DType T>
  void convert_key(const std::byte* key, float* to) {
    for (uint32_t d = 0; d < queries.k_dim; d += kLanes)
      V::store(to + d, key_floats<V, T>(key, d, queries.k_dim));
  }
  // block[d][i] = dimension d of key i, of float32.
  void transpose_keys(const std::byte* const* keys, uint32_t n) {
    for_vectors(
        keys, n, [&](const auto& from, uint32_t i) __attribute__((always_inline)) {
          for (uint32_t d = 0; d < queries.k_dim; d += 4)
            V::transpose(from, d * sizeof(float), block + d * kKeyBlock + i, kKeyBlock);
        });
  }

  // -- values --
  // block[i][d] = value i, dimension d, zero up to a whole vector.
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
  // n values as they lie, with the scales of quantised ones. latent: they are the beginnings of
  // keys, whose scales lie behind the codes of the whole key.
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
