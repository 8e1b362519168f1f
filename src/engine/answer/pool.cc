#include "engine/answer/pool.h"

#include <cmath>

#include "base/check.h"

namespace kvick::engine {
namespace {

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

}  // namespace

Pooling pooling_of(const model::Config& config, std::optional<Pooling> asked) {
  return asked.value_or(
      config.pooling.value_or(config.both_ways() ? Pooling::kMean : Pooling::kLast));
}

Pooling states_of(const model::Config& config, Pooling kind) {
  return kind == Pooling::kRank ? config.scored : kind;
}

Pool::Pool(Pooling kind, uint32_t tokens, uint32_t width)
    : begin_(kind == Pooling::kLast ? tokens - 1 : 0),
      end_(kind == Pooling::kCls ? 1 : tokens),
      next_(begin_),
      sum_(width) {
  KVICK_CHECK(kind != Pooling::kRank && tokens > 0, "{} tokens to pool by kind {}", tokens,
              static_cast<int>(kind));
}

void Pool::add(std::span<const float> state) {
  KVICK_CHECK(!complete() && state.size() == sum_.size(),
              "a state of {} floats for token {} of {}, of a width of {}", state.size(), next_,
              end_, sum_.size());
  for (size_t i = 0; i < state.size(); ++i) sum_[i] += state[i];
  ++next_;
}

std::vector<float> Pool::vector() const {
  KVICK_CHECK(complete(), "the states from token {} to {} have not come", next_, end_);
  std::vector<float> mean;
  mean.reserve(sum_.size());
  for (const double sum : sum_) mean.push_back(static_cast<float>(sum / (end_ - begin_)));
  return mean;
}

void give_form(const EmbeddingForm& form, std::vector<float>& vector) {
  if (form.dimensions != 0 && form.dimensions < vector.size()) vector.resize(form.dimensions);
  const double length = std::sqrt(product(vector, vector));
  if (!form.normalised || length == 0) return;
  for (float& value : vector) value = static_cast<float>(value / length);
}

double cosine(std::span<const float> a, std::span<const float> b) {
  KVICK_CHECK_EQ(a.size(), b.size());
  const double lengths = std::sqrt(product(a, a)) * std::sqrt(product(b, b));
  return lengths == 0 ? 0 : product(a, b) / lengths;
}

}  // namespace kvick::engine
