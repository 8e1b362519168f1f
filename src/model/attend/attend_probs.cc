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

float TaskProbs::share(const kernels::Queries& queries, kernels::Partial done, uint32_t query,
                       uint32_t chunk) const {
  const float max = max_[size_t{chunk} * queries_ + query];
  if (done.sum[query] == 0) return 0;
  if (queries.sinks == nullptr) return std::exp(max - done.max[query]) / done.sum[query];
  const float sink = queries.sinks[query % queries.group];
  const float most = std::max(done.max[query], sink);
  const float sum = done.sum[query] * std::exp(done.max[query] - most) + std::exp(sink - most);
  return std::exp(max - most) / sum;
}

void TaskProbs::add_to(const kernels::View& view, const kernels::Queries& queries,
                       kernels::Partial done, std::span<float> rows) const {
  for (uint32_t i = 0; i < queries.tokens; ++i)
    add_token(view, queries, done, queries.first + i, rows);
}

void TaskProbs::add_token(const kernels::View& view, const kernels::Queries& queries,
                          kernels::Partial done, uint32_t token, std::span<float> rows) const {
  const uint32_t past = past_rows(view), begin_query = (token - queries.first) * queries.group;
  for (uint32_t i = begin_query; i < begin_query + queries.group; ++i) {
    if (queries.window != 0) {
      add_places(view, queries, done, i, rows);
      continue;
    }
    const bool tree = queries.visible != nullptr;
    const uint32_t fresh = tree ? static_cast<uint32_t>(queries.visible[token].size()) : token + 1;
    for (uint32_t chunk = 0; chunk < chunks_; ++chunk) {
      const size_t at = size_t{chunk} * queries_ + i;
      const float factor = share(queries, done, i, chunk);
      const uint32_t begin = chunk * kChunkRows, end = std::min(begin + kChunkRows, past + fresh);
      for (uint32_t row = begin; row < end; ++row) {
        const uint32_t to = row < past || !tree ? row : past + queries.visible[token][row - past];
        rows[to] += probs_[at * kChunkRows + (row - begin)] * factor;
      }
    }
  }
}

// With a window, a chunk's probabilities are stored by position.
void TaskProbs::add_places(const kernels::View& view, const kernels::Queries& queries,
                           kernels::Partial done, uint32_t query, std::span<float> rows) const {
  const uint32_t first = kernels::first_place(queries), end = first + chunks_ * kChunkRows;
  std::vector<float> shares(chunks_);
  for (uint32_t chunk = 0; chunk < chunks_; ++chunk)
    shares[chunk] = share(queries, done, query, chunk);
  const auto add = [&](uint32_t position, uint32_t row) {
    if (position < first || position >= end) return;
    const uint32_t chunk = (position - first) / kChunkRows, place = (position - first) % kChunkRows;
    rows[row] += probs_[(size_t{chunk} * queries_ + query) * kChunkRows + place] * shares[chunk];
  };
  uint32_t row = 0;
  for (const kernels::Segment& segment : view.past)
    for (const kernels::Run& run : segment.runs)
      for (uint32_t i = 0; i < run.rows; ++i) add(run.pos + i, row++);
  const uint32_t token = queries.first + query / queries.group;
  if (queries.visible == nullptr)
    for (uint32_t i = 0; i <= token; ++i) add(queries.position + i, row + i);
  else
    for (uint32_t i = 0; i < queries.visible[token].size(); ++i)
      add(queries.position + i, row + queries.visible[token][i]);
}

}  // namespace kvick::model
