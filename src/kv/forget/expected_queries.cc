#include "kv/forget/expected_queries.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "kv/select/row_arithmetic.h"
#include "kv/strategy/ranges.h"

namespace kvick::kv {
namespace {

// Rows whose keys are multiplied with a covariance together.
constexpr size_t kBlock = 64;

size_t heads_of(const Shape& shape) { return size_t{shape.layers} * shape.kv_heads; }

size_t products_of(const Shape& shape, const Expectation& how) {
  const size_t dim = shape.head_dim;
  if (how.covariance == Covariance::kOff) return 0;
  return how.covariance == Covariance::kDiagonal ? dim : dim * (dim + 1) / 2;
}

}  // namespace

// -- queries --

QueryMoments::QueryMoments(const Shape& shape, const Expectation& how)
    : dim_(shape.head_dim),
      products_(products_of(shape, how)),
      group_(how.group),
      floats_(heads_of(shape) * group_ * (dim_ + products_)),
      counts_(heads_of(shape)) {}

uint64_t QueryMoments::bytes_of(const Shape& shape, const Expectation& how) {
  const uint64_t floats = how.group * (shape.head_dim + uint64_t{products_of(shape, how)});
  return heads_of(shape) * (floats * sizeof(float) + sizeof(uint32_t));
}

void QueryMoments::add_products(const kernels::Table& kernels, float factor, const float* x,
                                float* to) const {
  if (products_ == 0) return;
  if (products_ == dim_) {  // also the triangle of one element
    for (size_t i = 0; i < dim_; ++i) to[i] += factor * x[i] * x[i];
    return;
  }
  for (size_t i = 0; i < dim_; to += dim_ - i++) kernels.axpy(to, factor * x[i], x + i, dim_ - i);
}

// Welford's algorithm: sums of squares would cancel where a mean is large.
void QueryMoments::add(const kernels::Table& kernels, size_t head, std::span<float> q) {
  const auto count = static_cast<float>(++counts_[head]);
  for (uint32_t g = 0; g < group_; ++g) {
    float* const mean = floats_.data() + place(head, g);
    float* const deviation = q.data() + g * dim_;
    for (size_t i = 0; i < dim_; ++i) {
      deviation[i] -= mean[i];
      mean[i] += deviation[i] / count;
    }
    add_products(kernels, (count - 1) / count, deviation, mean + dim_);
  }
}

void QueryMoments::take(const kernels::Table& kernels, size_t head, QueryMoments& from) {
  const auto mine = static_cast<float>(counts_[head]), its = static_cast<float>(from.count(head));
  if (its == 0) return;
  counts_[head] += from.counts_[head];
  for (uint32_t g = 0; g < group_; ++g) {
    float* const mean = floats_.data() + place(head, g);
    float* const deviation = from.floats_.data() + place(head, g);  // its mean at first
    for (size_t i = 0; i < dim_; ++i) deviation[i] -= mean[i];
    kernels.axpy(mean, its / (mine + its), deviation, dim_);
    kernels.add(mean + dim_, deviation + dim_, products_);
    add_products(kernels, mine * its / (mine + its), deviation, mean + dim_);
  }
}

StepQueries::StepQueries(const Setup& setup, const ForgetRule& rule, uint32_t length,
                         uint32_t fresh)
    : length_(length), fresh_(fresh), seen_(heads_of(setup.shape)) {
  const Expectation& how = rule.expected;
  if (fresh > kMostApart)
    moments_ = QueryMoments(setup.shape, how);
  else
    apart_.resize(heads_of(setup.shape) * fresh * how.group * setup.shape.head_dim);
  turns_.resize(size_t{fresh} * how.turned);
  const std::span<const double> frequency = setup.select.rotation.frequency;
  for (uint32_t depth = 0; depth < fresh && how.turned > 0; ++depth) {
    float* const turn = turns_.data() + size_t{depth} * how.turned;
    for (size_t i = 0; i < frequency.size(); ++i) {
      const double angle = -frequency[i] * (length + depth);
      turn[i] = static_cast<float>(std::cos(angle));
      turn[frequency.size() + i] = static_cast<float>(std::sin(angle));
    }
  }
}

uint64_t StepQueries::bytes_of(const Shape& shape, const Expectation& how, uint32_t fresh) {
  const uint64_t heads = heads_of(shape), turns = uint64_t{fresh} * how.turned * sizeof(float);
  // Never less than a shorter step has, so that one can search for the longest that finds room.
  const uint64_t apart =
      heads * std::min(fresh, kMostApart) * how.group * shape.head_dim * sizeof(float);
  const uint64_t moments = fresh > kMostApart ? QueryMoments::bytes_of(shape, how) : 0;
  return std::max(apart, moments) + turns + heads;
}

void StepQueries::see(const Setup& setup, const ForgetRule& rule, const Query& query) {
  KVICK_CHECK(query.q != nullptr, "no queries for a policy that needs them");
  const Shape& shape = setup.shape;
  const Expectation& how = rule.expected;
  const kernels::Table& kernels = kernels_of(setup);
  const size_t dim = shape.head_dim, head = size_t{query.layer} * shape.kv_heads + query.head;
  if (std::exchange(seen_[head], uint8_t{1}) != 0) return;
  const float scale = query.scale != 0 ? query.scale : 1 / std::sqrt(static_cast<float>(dim));
  std::vector<float> one(apart_.empty() ? how.group * dim : 0);
  for (uint32_t token = 0; token < fresh_; ++token) {
    const size_t depth = query.path == nullptr ? token : query.path[token].size() - 1;
    float* const to =
        apart_.empty() ? one.data() : apart_.data() + (head * fresh_ + token) * how.group * dim;
    for (uint32_t g = 0; g < how.group; ++g) {
      const float* const q = query.q + size_t{token} * query.q_stride + g * dim;
      const std::span<float> plain(to + g * dim, dim);
      for (size_t i = 0; i < dim; ++i) plain[i] = scale * q[i];
      transform(kernels, shape.hadamard_blocks().k, plain);
      if (how.turned > 0)
        kernels.rope(plain.data(), turns_.data() + depth * how.turned, how.turned,
                     setup.select.rotation.interleaved);
    }
    if (apart_.empty() && length_ + depth >= rule.selection.sinks) moments_.add(kernels, head, one);
  }
}

void StepQueries::keep(const Setup& setup, const ForgetRule& rule, size_t head,
                       std::span<const uint32_t> kept, QueryMoments& into) {
  if (seen_[head] == 0 || kept.empty()) return;
  if (apart_.empty()) return into.take(kernels_of(setup), head, moments_);
  const size_t floats = size_t{rule.expected.group} * setup.shape.head_dim;
  for (uint32_t i = 0; i < kept.size(); ++i)
    if (length_ + i >= rule.selection.sinks)
      into.add(kernels_of(setup), head,
               std::span(apart_).subspan((head * fresh_ + kept[i]) * floats, floats));
}

// -- scores --

namespace {

// The parts of the scratch of expect_attention.
struct Scratch {
  Scratch(const Shape& shape, const Expectation& how, size_t rows, std::span<float> floats) {
    const auto take = [&](size_t count) {
      const std::span<float> part = floats.first(count);
      floats = floats.subspan(count);
      return part;
    };
    const size_t dim = shape.head_dim;
    logits = take(how.group * rows);
    keys = take(kBlock * dim);
    turn = take(how.turned);
    value = take(shape.dim(true));
    if (how.covariance != Covariance::kFull) return;
    products = take(kBlock * dim);
    matrix = take(dim * dim);
  }
  std::span<float> logits;          // [group][rows]
  std::span<float> keys, products;  // [kBlock][head_dim]
  std::span<float> turn;            // [Expectation::turned]
  std::span<float> value, matrix;   // [v_dim], [head_dim][head_dim]
};

// The transpose of the mean of the rotations at positions [first, first + count), as
// kernels::Table::rope takes it. The mean of rotations by a + i * f, i < count, is the rotation by
// the angle in the middle, times sin(count * f / 2) / (count * sin(f / 2)).
void mean_turn(std::span<const double> frequency, uint32_t first, uint32_t count,
               std::span<float> turn) {
  for (size_t i = 0; i < turn.size() / 2; ++i) {
    const double half = frequency[i] / 2, sine = std::sin(half);
    const double shrunk = std::abs(sine) < 1e-12 ? 1 : std::sin(count * half) / (count * sine);
    const double middle = frequency[i] * (first + (count - 1) / 2.0);
    turn[i] = static_cast<float>(shrunk * std::cos(middle));
    turn[turn.size() / 2 + i] = static_cast<float>(-shrunk * std::sin(middle));
  }
}

// Writes the logits of `count` rows, whose keys are in scratch.keys, for query head g.
void block_logits(const ExpectedHead& of, uint32_t g, size_t count, const Scratch& scratch,
                  float* logits) {
  const kernels::Table& kernels = kernels_of(of.setup);
  const size_t dim = of.setup.shape.head_dim;
  const size_t head = size_t{of.layer} * of.setup.shape.kv_heads + of.head;
  const uint32_t queries = of.queries.count(head);
  const std::span<const float> mean = of.queries.mean(head, g);
  const std::span<const float> products = of.queries.products(head, g);
  const float half = queries == 0 ? 0 : 0.5F / static_cast<float>(queries);
  const Covariance covariance = of.rule.expected.covariance;
  if (covariance == Covariance::kFull) {
    const float* at = products.data();
    for (size_t i = 0; i < dim; ++i)
      for (size_t j = i; j < dim; ++j)
        scratch.matrix[i * dim + j] = scratch.matrix[j * dim + i] = half * *at++;
    kernels.dot_columns(kernels::DType::kF32,
                        reinterpret_cast<const std::byte*>(scratch.matrix.data()),
                        {.rows = dim, .stride = dim, .dims = dim}, scratch.keys.data(), count,
                        scratch.products.data(), dim);
  }
  for (size_t i = 0; i < count; ++i) {
    const float* const key = scratch.keys.data() + i * dim;
    logits[i] = kernels.dot(mean.data(), key, dim);
    if (covariance == Covariance::kFull)
      logits[i] += kernels.dot(scratch.products.data() + i * dim, key, dim);
    if (covariance == Covariance::kDiagonal)
      for (size_t d = 0; d < dim; ++d) logits[i] += half * products[d] * key[d] * key[d];
  }
}

// Adds to each row's mass its share of the softmax over all rows that are no sinks, times `weight`.
// Logits that are not finite count as no attention.
void add_shares(std::span<const float> logits, uint32_t sinks, float weight,
                std::span<RowNote> notes) {
  const auto counts = [&](size_t i) { return notes[i].pos >= sinks && std::isfinite(logits[i]); };
  float most = -std::numeric_limits<float>::infinity(), sum = 0;
  for (size_t i = 0; i < notes.size(); ++i)
    if (counts(i)) most = std::max(most, logits[i]);
  for (size_t i = 0; i < notes.size(); ++i)
    if (counts(i)) sum += std::exp(logits[i] - most);
  for (size_t i = 0; i < notes.size(); ++i)
    if (counts(i)) notes[i].mass += weight * std::exp(logits[i] - most) / sum;
}

}  // namespace

size_t expected_scratch(const Shape& shape, const Expectation& how, size_t rows) {
  const size_t dim = shape.head_dim, full = how.covariance == Covariance::kFull ? 1 : 0;
  return how.group * rows + kBlock * dim + how.turned + shape.dim(true) +
         full * (kBlock * dim + dim * dim);
}

void expect_attention(const ExpectedHead& of,
                      base::FunctionRef<const std::byte*(uint32_t row, bool is_v)> row_at,
                      std::span<RowNote> notes, std::span<float> scratch) {
  const Shape& shape = of.setup.shape;
  const Expectation& how = of.rule.expected;
  const kernels::Table& kernels = kernels_of(of.setup);
  const Scratch parts(shape, how, notes.size(), scratch);
  const size_t dim = shape.head_dim;
  mean_turn(of.setup.select.rotation.frequency, of.tokens, how.future, parts.turn);
  const auto read = [&](uint32_t row, bool is_v, std::span<float> out) {
    kernels::to_f32(is_v ? shape.v_type : shape.k_type, row_at(row, is_v), out.size(), out.data());
    const float scale = static_scale(of.setup, of.layer, of.head, is_v);
    for (float& x : out) x *= scale;
  };
  for (size_t first = 0; first < notes.size(); first += kBlock) {
    const size_t count = std::min(kBlock, notes.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const std::span<float> key = parts.keys.subspan(i * dim, dim);
      read(static_cast<uint32_t>(first + i), false, key);
      transform(kernels, shape.hadamard_blocks().k, key);
      if (how.turned > 0)
        kernels.rope(key.data(), parts.turn.data(), how.turned,
                     of.setup.select.rotation.interleaved);
    }
    for (uint32_t g = 0; g < how.group; ++g)
      block_logits(of, g, count, parts, parts.logits.data() + g * notes.size() + first);
  }
  for (RowNote& note : notes) note.mass = 0;
  for (uint32_t g = 0; g < how.group; ++g)
    add_shares(parts.logits.subspan(g * notes.size(), notes.size()), of.rule.selection.sinks,
               1 / static_cast<float>(how.group), notes);
  for (uint32_t row = 0; how.value_norms && row < notes.size(); ++row) {
    read(row, true, parts.value);
    const float norm =
        std::sqrt(kernels.dot(parts.value.data(), parts.value.data(), parts.value.size()));
    notes[row].mass = (notes[row].mass + how.epsilon) * norm;
  }
}

}  // namespace kvick::kv
