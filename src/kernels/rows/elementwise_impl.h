#pragma once
// Element-wise entries of the table, for any vector type of vec_*.h. Included inside a target
// region. All of them are bound by the first-level cache and take little time beside the matrix
// products. It only matters that they make one pass and no libm call.

namespace kvick::kernels {
namespace {

// Loops over vectors. i: first element of the vector; left: elements from i on, of which the vector
// holds at most kLanes.
#define KVICK_FOR_VECTORS(i, left, n)      \
  for (size_t i = 0, left = (n); left > 0; \
       i += V::kLanes, left = left > size_t{V::kLanes} ? left - size_t{V::kLanes} : 0)

template <class V>
void rms_norm(const float* x, const float* weight, size_t n, float eps, float* y) {
  typename V::F sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  size_t turn = 0;
  KVICK_FOR_VECTORS(i, left, n) {
    const auto part = load_up_to<V>(x + i, left);
    sum[turn] = V::fma(part, part, sum[turn]);
    turn = (turn + 1) & 3;
  }
  const float squares = V::sum(V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3])));
  const auto factor = V::set(1 / std::sqrt(squares / static_cast<float>(n) + eps));
  KVICK_FOR_VECTORS(i, left, n) {
    const auto scaled = V::mul(load_up_to<V>(x + i, left), factor);
    store_up_to<V>(y + i, V::mul(scaled, load_up_to<V>(weight + i, left)), left);
  }
}

template <class V>
void layer_norm(const float* x, const float* weight, const float* bias, size_t n, float eps,
                float* y) {
  auto sum = V::zero();
  KVICK_FOR_VECTORS(i, left, n) sum = V::add(sum, load_up_to<V>(x + i, left));
  const auto guess = V::set(V::sum(sum) / static_cast<float>(n));
  float guesses[V::kLanes];  // so that lanes past the last element can be zero
  V::store(guesses, guess);
  // Sums squares around the guessed mean, because the difference of two large sums would lose the
  // variance. `rests` recovers what the first sum lost to rounding.
  auto squares = V::zero(), rests = V::zero();
  KVICK_FOR_VECTORS(i, left, n) {
    const auto part = V::sub(load_up_to<V>(x + i, left), load_up_to<V>(guesses, left));
    squares = V::fma(part, part, squares);
    rests = V::add(rests, part);
  }
  const float rest = V::sum(rests) / static_cast<float>(n);
  const float variance = V::sum(squares) / static_cast<float>(n) - rest * rest;
  const auto factor = V::set(1 / std::sqrt((variance > 0 ? variance : 0) + eps));
  KVICK_FOR_VECTORS(i, left, n) {
    const auto centred = V::sub(V::sub(load_up_to<V>(x + i, left), guess), V::set(rest));
    const auto shifted = V::fma(V::mul(centred, factor), load_up_to<V>(weight + i, left),
                                load_up_to<V>(bias + i, left));
    store_up_to<V>(y + i, shifted, left);
  }
}

template <class V>
void silu_mul(const float* gate, const float* up, size_t n, float* y) {
  KVICK_FOR_VECTORS(i, left, n) {
    store_up_to<V>(y + i, silu_times<V>(load_up_to<V>(gate + i, left), load_up_to<V>(up + i, left)),
                   left);
  }
}

template <class V>
void relu(float* x, size_t n) {
  KVICK_FOR_VECTORS(i, left, n)
  store_up_to<V>(x + i, V::max(load_up_to<V>(x + i, left), V::zero()), left);
}

template <class V>
void add(float* x, const float* y, size_t n) {
  KVICK_FOR_VECTORS(i, left, n)
  store_up_to<V>(x + i, V::add(load_up_to<V>(x + i, left), load_up_to<V>(y + i, left)), left);
}

template <class V>
void axpy(float* x, float a, const float* y, size_t n) {
  const auto factor = V::set(a);
  KVICK_FOR_VECTORS(i, left, n) {
    const auto sum = V::fma(factor, load_up_to<V>(y + i, left), load_up_to<V>(x + i, left));
    store_up_to<V>(x + i, sum, left);
  }
}

template <class V>
float dot(const float* x, const float* y, size_t n) {
  auto even = V::zero(), odd = V::zero();
  size_t done = 0;
  for (; done + 2 * V::kLanes <= n; done += 2 * V::kLanes) {
    even = V::fma(V::load(x + done), V::load(y + done), even);
    odd = V::fma(V::load(x + done + V::kLanes), V::load(y + done + V::kLanes), odd);
  }
  KVICK_FOR_VECTORS(i, left, n - done)
  even = V::fma(load_up_to<V>(x + done + i, left), load_up_to<V>(y + done + i, left), even);
  return V::sum(V::add(even, odd));
}

// Rotates (a, b) by the angle of cosine c and sine s.
template <class V>
void turn(typename V::F& a, typename V::F& b, typename V::F c, typename V::F s) {
  const auto old = a;
  a = V::nfma(b, s, V::mul(old, c));
  b = V::fma(old, s, V::mul(b, c));
}

template <class V>
void rope_halves(float* head, const float* cos_sin, size_t dims) {
  float* const other = head + dims / 2;
  KVICK_FOR_VECTORS(i, left, dims / 2) {
    auto a = load_up_to<V>(head + i, left), b = load_up_to<V>(other + i, left);
    turn<V>(a, b, load_up_to<V>(cos_sin + i, left), load_up_to<V>(cos_sin + dims / 2 + i, left));
    store_up_to<V>(head + i, a, left);
    store_up_to<V>(other + i, b, left);
  }
}

template <class V>
void rope_pairs(float* head, const float* cos_sin, size_t dims) {
  KVICK_FOR_VECTORS(i, left, dims / 2) {
    const size_t pairs = left < size_t{V::kLanes} ? left : size_t{V::kLanes};
    const size_t low = 2 * pairs < size_t{V::kLanes} ? 2 * pairs : size_t{V::kLanes};
    float* const first = head + 2 * i;
    auto a = load_up_to<V>(first, low);
    auto b = 2 * pairs > low ? load_up_to<V>(first + low, 2 * pairs - low) : V::zero();
    typename V::F even, odd;
    V::split_pairs(a, b, even, odd);
    turn<V>(even, odd, load_up_to<V>(cos_sin + i, left),
            load_up_to<V>(cos_sin + dims / 2 + i, left));
    V::join_pairs(even, odd, a, b);
    store_up_to<V>(first, a, low);
    if (2 * pairs > low) store_up_to<V>(first + low, b, 2 * pairs - low);
  }
}

template <class V>
void rope(float* head, const float* cos_sin, size_t dims, bool interleaved) {
  if (interleaved)
    rope_pairs<V>(head, cos_sin, dims);
  else
    rope_halves<V>(head, cos_sin, dims);
}

template <class V, DType T>
void store_halves(const float* in, size_t n, std::byte* out) {
  size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::template store_row<T>(out + 2 * i, V::load(in + i));
  if (i < n) from_f32(T, in + i, n - i, out + 2 * i);
}

template <class V, DType T>
void store_static(const float* in, size_t n, std::byte* out) {
  constexpr int kLimit = static_limit(T);
  constexpr size_t kBytes = T == DType::kStatic8 ? 1 : 2;
  const auto low = V::set(-kLimit), high = V::set(kLimit);
  size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const auto cut = V::min(V::max(V::load(in + i), low), high);  // NaN gives `low`
    if constexpr (T == DType::kStatic8)
      V::store_codes(reinterpret_cast<uint8_t*>(out + i), cut, 0, -kLimit, kLimit);
    else
      V::template store_row<T>(out + i * kBytes, cut);
  }
  if (i < n) from_f32(T, in + i, n - i, out + i * kBytes);
}

// See cache_row.h.
template <class V, DType T>
void store_codes(const float* in, size_t n, std::byte* out) {
  constexpr CodeRange kRange = code_range(T);
  std::byte* scales = out + code_bytes(T, n);
  for (size_t group = 0; group < n / kRowGroup; ++group) {
    const float* x = in + group * kRowGroup;
    auto low = V::zero(), high = V::zero(), not_finite = V::zero();
    for (uint32_t i = 0; i < kRowGroup; i += V::kLanes) {
      const auto part = V::load(x + i);
      low = V::min(part, low);
      high = V::max(part, high);
      not_finite = V::fma(part, V::zero(), not_finite);
    }
    const float least = -V::largest(V::sub(V::zero(), low)), most = V::largest(high);
    const GroupScale scale = group_scale(T, (-least > most ? least : most) + V::sum(not_finite));
    alignas(64) uint8_t codes[kRowGroup];
    const auto inverse = V::set(scale.inverse);
    for (uint32_t i = 0; i < kRowGroup; i += V::kLanes) {
      const auto scaled = scale.inverse == 0 ? V::zero() : V::mul(V::load(x + i), inverse);
      V::store_codes(codes + i, scaled, kRange.middle, kRange.low, kRange.high);
    }
    if constexpr (T == DType::kQ8)
      std::memcpy(out + group * kRowGroup, codes, kRowGroup);
    else
      pack_nibbles(codes, out + group * kRowGroup / 2);
    std::memcpy(scales + group * sizeof scale.half, &scale.half, sizeof scale.half);
  }
}

// See kivi.h.
template <class V>
typename V::F kivi_codes(typename V::F x, typename V::F zero, typename V::F inverse) {
  const auto code = V::mul(V::sub(x, zero), inverse);
  return V::max(V::min(code, V::set(kKiviMost)), V::zero());
}

template <class V>
void store_kivi_row(const float* in, size_t n, std::byte* out) {
  for (size_t group = 0; group < n / kRowGroup; ++group) {
    const float* x = in + group * kRowGroup;
    auto low = V::load(x), high = low, not_finite = V::zero();
    for (uint32_t i = 0; i < kRowGroup; i += V::kLanes) {
      const auto part = V::load(x + i);
      low = V::min(part, low);
      high = V::max(part, high);
      not_finite = V::fma(part, V::zero(), not_finite);
    }
    const KiviScale scale =
        kivi_scale(-V::largest(V::sub(V::zero(), low)), V::largest(high) + V::sum(not_finite));
    alignas(64) uint8_t codes[kRowGroup];
    for (uint32_t i = 0; i < kRowGroup; i += V::kLanes)
      V::store_codes(codes + i,
                     kivi_codes<V>(V::load(x + i), V::set(scale.zero), V::set(scale.inverse)), 0, 0,
                     static_cast<int>(kKiviMost));
    pack_nibbles(codes, out + group * kRowGroup / 2);
    std::memcpy(out + n / 2 + group * kKiviPairBytes, scale.halves, kKiviPairBytes);
  }
}

// Stores 32 rows, 32 channels at a time. Lanes are channels.
template <class V>
void store_group(DType type, const float* in, size_t stride, size_t n, std::byte* const* rows) {
  check_group_type(type, n);
  const size_t in_row = n / kRowGroup;  // channels whose scales a row stores
  for (size_t first = 0; first < n; first += kRowGroup) {
    alignas(64) float least[kRowGroup], most[kRowGroup];  // then zero points and inverses
    for (uint32_t c = 0; c < kRowGroup; c += V::kLanes) {
      auto low = V::load(in + first + c), high = low, not_finite = V::zero();
      for (uint32_t i = 0; i < kRowGroup; ++i) {
        const auto part = V::load(in + i * stride + first + c);
        low = V::min(part, low);
        high = V::max(part, high);
        not_finite = V::fma(part, V::zero(), not_finite);
      }
      V::store(least + c, low);
      V::store(most + c, V::add(high, not_finite));
    }
    for (uint32_t c = 0; c < kRowGroup; ++c) {
      const KiviScale scale = kivi_scale(least[c], most[c]);
      least[c] = scale.zero, most[c] = scale.inverse;
      const size_t d = first + c;
      std::memcpy(rows[d / in_row] + n / 2 + d % in_row * kKiviPairBytes, scale.halves,
                  kKiviPairBytes);
    }
    for (uint32_t i = 0; i < kRowGroup; ++i) {
      alignas(64) uint8_t codes[kRowGroup];
      for (uint32_t c = 0; c < kRowGroup; c += V::kLanes)
        V::store_codes(codes + c,
                       kivi_codes<V>(V::load(in + i * stride + first + c), V::load(least + c),
                                     V::load(most + c)),
                       0, 0, static_cast<int>(kKiviMost));
      pack_nibbles(codes, rows[i] + first / 2);
    }
  }
}

template <class V>
void store_row(DType type, const float* in, size_t n, std::byte* out) {
  check_row_type(type, n);
  if (type == DType::kF32) std::memcpy(out, in, n * sizeof(float));
  if (type == DType::kF16) store_halves<V, DType::kF16>(in, n, out);
  if (type == DType::kBF16) store_halves<V, DType::kBF16>(in, n, out);
  if (type == DType::kQ8) store_codes<V, DType::kQ8>(in, n, out);
  if (type == DType::kQ4) store_codes<V, DType::kQ4>(in, n, out);
  if (type == DType::kQ3) store_levels<V, DType::kQ3>(in, n, out);
  if (type == DType::kQ2) store_levels<V, DType::kQ2>(in, n, out);
  if (type == DType::kStatic8) store_static<V, DType::kStatic8>(in, n, out);
  if (type == DType::kStatic16) store_static<V, DType::kStatic16>(in, n, out);
  if (type == DType::kKivi4V) store_kivi_row<V>(in, n, out);
}

// Returns the dot product of elements [i, dims), fewer than a vector, of a row and q.
template <class V, DType T>
float dot_rest(const std::byte* row, const float* q, size_t i, size_t dims) {
  float sum = 0;
  if constexpr (V::kLanes > 8) {
    if (dims - i >= 8) {
      sum = V::sum(V::mul(V::template load_row_part<T>(row + i * kElementBytes<T>, 8),
                          V::load_part(q + i, 8)));
      i += 8;
    }
  }
  for (; i < dims; ++i) {
    float x;
    to_f32(T, row + i * kElementBytes<T>, 1, &x);
    sum += x * q[i];
  }
  return sum;
}

template <class V, DType T>
float dot_row(const std::byte* row, const float* q, size_t dims) {
  auto even = V::zero(), odd = V::zero();
  size_t i = 0;
  for (; i + 2 * V::kLanes <= dims; i += 2 * V::kLanes) {
    even = V::fma(V::template load_row<T>(row + i * kElementBytes<T>), V::load(q + i), even);
    odd = V::fma(V::template load_row<T>(row + (i + V::kLanes) * kElementBytes<T>),
                 V::load(q + i + V::kLanes), odd);
  }
  if (i + V::kLanes <= dims) {
    even = V::fma(V::template load_row<T>(row + i * kElementBytes<T>), V::load(q + i), even);
    i += V::kLanes;
  }
  const float sum = V::sum(V::add(even, odd));
  return i < dims ? sum + dot_rest<V, T>(row, q, i, dims) : sum;
}

// Computes four rows together, each with the bits of dot_row: this gives four streams of memory,
// and enough sums to hide the latency of one.
template <class V, DType T>
void dot_four_rows(const std::byte* rows, size_t stride, const float* q, size_t dims, float* out) {
  constexpr int kRows = 4;
  typename V::F even[kRows], odd[kRows];
  for (int r = 0; r < kRows; ++r) even[r] = odd[r] = V::zero();
  const auto add = [&](typename V::F* sums, size_t i) {
    const auto x = V::load(q + i);
    for (int r = 0; r < kRows; ++r)
      sums[r] =
          V::fma(V::template load_row<T>(rows + r * stride + i * kElementBytes<T>), x, sums[r]);
  };
  size_t i = 0;
  for (; i + 2 * V::kLanes <= dims; i += 2 * V::kLanes) {
    add(even, i);
    add(odd, i + V::kLanes);
  }
  if (i + V::kLanes <= dims) {
    add(even, i);
    i += V::kLanes;
  }
  for (int r = 0; r < kRows; ++r) {
    const float sum = V::sum(V::add(even[r], odd[r]));
    out[r] = i < dims ? sum + dot_rest<V, T>(rows + r * stride, q, i, dims) : sum;
  }
}

template <class V, DType T>
void dot_rows_of(const std::byte* rows, size_t stride, size_t n, const float* q, size_t dims,
                 float* out) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) dot_four_rows<V, T>(rows + i * stride, stride, q, dims, out + i);
  for (; i < n; ++i) out[i] = dot_row<V, T>(rows + i * stride, q, dims);
}

template <class V>
void dot_rows(DType type, const std::byte* rows, size_t stride, size_t n, const float* q,
              size_t dims, float* out) {
  check_dot_type(type);
  if (type == DType::kF32) return dot_rows_of<V, DType::kF32>(rows, stride, n, q, dims, out);
  if (type == DType::kF16) return dot_rows_of<V, DType::kF16>(rows, stride, n, q, dims, out);
  if (type == DType::kBF16) return dot_rows_of<V, DType::kBF16>(rows, stride, n, q, dims, out);
  if (type == DType::kStatic8)
    return dot_rows_of<V, DType::kStatic8>(rows, stride, n, q, dims, out);
  dot_rows_of<V, DType::kStatic16>(rows, stride, n, q, dims, out);
}

// Computes a tile: kQueries queries by the rows of kVectors vectors.
template <class V, DType T, int kQueries, int kVectors>
void dot_columns_tile(const std::byte* columns, Columns shape, const float* q, float* out,
                      size_t out_stride) {
  typename V::F sum[kQueries][kVectors];
  for (auto& row : sum)
    for (auto& x : row) x = V::zero();
  for (size_t d = 0; d < shape.dims; ++d, columns += shape.stride * kElementBytes<T>) {
    typename V::F x[kVectors];
    for (int v = 0; v < kVectors; ++v)
      x[v] = V::template load_row<T>(columns + size_t{V::kLanes} * v * kElementBytes<T>);
    for (int i = 0; i < kQueries; ++i) {
      const auto factor = V::set(q[i * shape.dims + d]);
      for (int v = 0; v < kVectors; ++v) sum[i][v] = V::fma(x[v], factor, sum[i][v]);
    }
  }
  for (int i = 0; i < kQueries; ++i)
    for (int v = 0; v < kVectors; ++v)
      V::store(out + i * out_stride + size_t{V::kLanes} * v, sum[i][v]);
}

template <class V, DType T, int kQueries>
void dot_columns_of(const std::byte* columns, Columns shape, const float* q, float* out,
                    size_t out_stride) {
  constexpr int kVectors = kQueries > 2 ? 2 : 4;  // enough sums to hide the latency of one
  size_t i = 0;
  const auto at = [&](size_t row) { return columns + row * kElementBytes<T>; };
  for (; i + size_t{V::kLanes} * kVectors <= shape.rows; i += size_t{V::kLanes} * kVectors)
    dot_columns_tile<V, T, kQueries, kVectors>(at(i), shape, q, out + i, out_stride);
  for (; i + V::kLanes <= shape.rows; i += V::kLanes)
    dot_columns_tile<V, T, kQueries, 1>(at(i), shape, q, out + i, out_stride);
  for (; i < shape.rows; ++i)
    for (int n = 0; n < kQueries; ++n) {
      float sum = 0;
      for (size_t d = 0; d < shape.dims; ++d) {
        float x;
        to_f32(T, at(d * shape.stride + i), 1, &x);
        sum += x * q[n * shape.dims + d];
      }
      out[n * out_stride + i] = sum;
    }
}

template <class V, DType T>
void dot_columns_of(const std::byte* columns, Columns shape, const float* q, size_t queries,
                    float* out, size_t out_stride) {
  const auto step = [&](size_t n) { queries -= n, q += n * shape.dims, out += n * out_stride; };
  for (; queries >= 4; step(4)) dot_columns_of<V, T, 4>(columns, shape, q, out, out_stride);
  if (queries == 3) dot_columns_of<V, T, 3>(columns, shape, q, out, out_stride);
  if (queries == 2) dot_columns_of<V, T, 2>(columns, shape, q, out, out_stride);
  if (queries == 1) dot_columns_of<V, T, 1>(columns, shape, q, out, out_stride);
}

template <class V>
void dot_columns(DType type, const std::byte* columns, Columns shape, const float* q,
                 size_t queries, float* out, size_t out_stride) {
  if (type == DType::kF16)
    return dot_columns_of<V, DType::kF16>(columns, shape, q, queries, out, out_stride);
  if (type == DType::kF32)
    return dot_columns_of<V, DType::kF32>(columns, shape, q, queries, out, out_stride);
  KVICK_CHECK(type == DType::kStatic8, "products of columns of type {}", dtype_info(type).name);
  dot_columns_of<V, DType::kStatic8>(columns, shape, q, queries, out, out_stride);
}

// Counts in float lanes, in pieces of kAtOnce elements, for which that is exact.
template <class V>
size_t count_above(const float* x, size_t n, float limit) {
  constexpr size_t kAtOnce = size_t{1} << 20, kVectors = 4;
  const auto bound = V::set(limit);
  size_t count = 0;
  for (size_t begin = 0; begin < n; begin += kAtOnce) {
    const size_t end = n - begin < kAtOnce ? n : begin + kAtOnce;
    typename V::F sums[kVectors];
    for (auto& sum : sums) sum = V::zero();
    size_t i = begin;
    for (; i + kVectors * V::kLanes <= end; i += kVectors * V::kLanes)
      KVICK_UNROLL for (size_t v = 0; v < kVectors; ++v) sums[v] =
          V::count_above(sums[v], V::load(x + i + v * V::kLanes), bound);
    for (; i + V::kLanes <= end; i += V::kLanes)
      sums[0] = V::count_above(sums[0], V::load(x + i), bound);
    for (const auto& sum : sums) count += static_cast<size_t>(V::sum(sum));
    for (; i < end; ++i) count += x[i] > limit ? 1 : 0;
  }
  return count;
}

template <class V>
size_t indices_above(const float* x, size_t n, float limit, uint32_t* out) {
  const auto bound = V::set(limit);
  size_t i = 0, count = 0;
  for (; i + V::kLanes <= n; i += V::kLanes)
    count += V::indices_above(V::load(x + i), bound, static_cast<uint32_t>(i), out + count);
  for (; i < n; ++i)
    if (x[i] > limit) out[count++] = static_cast<uint32_t>(i);
  return count;
}

template <class V>
void fill_rows(Table& table) {
  table.dot_columns = dot_columns<V>;
  table.count_above = count_above<V>;
  table.indices_above = indices_above<V>;
  table.dot_rows = dot_rows<V>;
  table.rms_norm = rms_norm<V>;
  table.layer_norm = layer_norm<V>;
  table.silu_mul = silu_mul<V>;
  table.relu = relu<V>;
  table.add = add<V>;
  table.axpy = axpy<V>;
  table.dot = dot<V>;
  table.rope = rope<V>;
  table.attend_chunk = attend_chunk<V>;
  table.merge = merge<V>;
  table.finish = finish<V>;
  table.store_row = store_row<V>;
  table.exp_row = exp_row<V>;
  table.weigh_tokens = weigh_tokens<V>;
  table.walk_memory = walk_memory<V>;
  table.store_group = store_group<V>;
  table.hadamard = hadamard<V>;
}

}  // namespace
}  // namespace kvick::kernels
