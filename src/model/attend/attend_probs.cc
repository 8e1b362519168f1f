#include "model/attend/attend_probs.h"

#include <algorithm>
#include <cmath>

namespace kvick::model {
namespace {

using kernels::kChunkRows;

uint32_t past_rows(const kernels::View& view) {
  uint32_t rows = 0;
  for (const kernels::Segment& segment : view.past) rows += kernels::rows_of(segment);
  return rows;
}

}  // namespace

uint32_t rows_of(const kernels::View& view) {
  return past_rows(view) + kernels::rows_of(view.fresh);
}

void TaskProbs::start(uint32_t chunks, uint32_t queries) {
  chunks_ = chunks;
  queries_ = queries;
  const size_t rows = size_t{chunks} * queries;
  if (max_.size() < rows) {
    max_.resize(rows);
    probs_.resize(rows * kChunkRows);
  }
}

float* TaskProbs::of(uint32_t chunk) {
  return probs_.data() + size_t{chunk} * queries_ * kChunkRows;
}

void TaskProbs::keep_max(uint32_t chunk, const float* max) {
  std::copy_n(max, queries_, max_.data() + size_t{chunk} * queries_);
}

void TaskProbs::add_to(const kernels::View& view, const kernels::Queries& queries,
                       kernels::Partial done, std::span<float> rows) const {
  const uint32_t past = past_rows(view);
  for (uint32_t i = 0; i < queries_; ++i) {
    const uint32_t token = queries.first + i / queries.group;
    const bool tree = queries.visible != nullptr;
    const uint32_t fresh = tree ? static_cast<uint32_t>(queries.visible[token].size()) : token + 1;
    for (uint32_t chunk = 0; chunk < chunks_; ++chunk) {
      const size_t at = size_t{chunk} * queries_ + i;
      const float factor = std::exp(max_[at] - done.max[i]) / done.sum[i];
      const uint32_t begin = chunk * kChunkRows, end = std::min(begin + kChunkRows, past + fresh);
      for (uint32_t row = begin; row < end; ++row) {
        const uint32_t to = row < past || !tree ? row : past + queries.visible[token][row - past];
        rows[to] += probs_[at * kChunkRows + (row - begin)] * factor;
      }
    }
  }
}

}  // namespace kvick::model
