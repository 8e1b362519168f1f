#include "plan/machine/roofline.h"

#include <algorithm>

#include "base/check.h"
#include "model/core/seen_rows.h"

namespace kvick::plan {
namespace {

double to_double(uint64_t value) { return static_cast<double>(value); }

// Returns the operations of one token's attention in a sequence of `tokens` tokens.
double attention_ops(const model::Config& config, const CacheReads& cache, uint32_t tokens) {
  const double read = cache.all_rows ? 1 : to_double(cache.bytes(tokens));
  const double seen = cache.all_rows ? 1 : to_double(cache.seen_bytes(tokens));
  if (seen == 0) return 0;  // no layer attends
  double ops = 0;
  for (const model::LayerConfig& layer : config.layers)
    ops += 2.0 * (layer.q_floats() + layer.out_floats()) *
           (model::seen_rows(layer, tokens) * read / seen);
  return ops;
}

void add_products(const model::WeightPart& part, double tokens, model::Role role, Work& work) {
  const bool tiles = role != model::Role::kAnswer;
  (tiles ? work.tile_ops : work.int8_ops) += 2 * tokens * to_double(part.int8);
  (tiles ? work.tile_ops : work.f32_ops) += 2 * tokens * to_double(part.half);
  (tiles ? work.tile_ops : work.bf16_ops) += 2 * tokens * to_double(part.bf16);
  work.f32_ops += 2 * tokens * to_double(part.f32);
}

// Returns the expected bytes of the experts that `tokens` tokens read, if all are equally likely.
double expert_bytes(const model::Weights& weights, double tokens) {
  const model::ExpertsConfig experts = {.count = weights.expert_count,
                                        .used = weights.experts_used};
  return to_double(weights.experts.bytes) * experts.share_read(tokens);
}

void add_expert_products(const model::Weights& weights, double tokens, model::Role role,
                         Work& work) {
  if (weights.expert_count == 0) return;
  add_products(weights.experts, tokens * weights.experts_used / weights.expert_count, role, work);
}

}  // namespace

Work decode_work(const model::Config& config, const model::Weights& weights,
                 const CacheReads& cache, const DecodeLoad& load) {
  Work work;
  const uint64_t weight_bytes = weights.layers.bytes + weights.output.bytes;
  for (uint32_t i = 1; i <= load.tokens; ++i) {
    const uint64_t cached = load.parallel * cache.bytes(load.depth + i);
    work.bytes += to_double(weight_bytes + load.parallel * weights.lookup_bytes + cached) +
                  expert_bytes(weights, load.parallel);
    work.f32_ops += load.parallel * attention_ops(config, cache, load.depth + i);
    work.working_set_bytes = weight_bytes + weights.experts.bytes + cached;
  }
  const double tokens = 1.0 * load.parallel * load.tokens;
  add_products(weights.layers, tokens, model::Role::kAnswer, work);
  add_expert_products(weights, tokens, model::Role::kAnswer, work);
  add_products(weights.output, tokens, model::Role::kAnswer, work);
  return work;
}

Work prefill_work(const model::Config& config, const model::Weights& weights,
                  const CacheReads& cache, const PrefillLoad& load) {
  KVICK_CHECK(load.chunk > 0, "chunks of 0 tokens");
  Work work;
  for (uint32_t done = 0; done < load.tokens;) {
    const uint32_t n = std::min(load.chunk, load.tokens - done);
    done += n;
    const uint64_t cached = cache.bytes(load.depth + done);
    work.bytes += to_double(weights.layers.bytes + n * weights.lookup_bytes + cached) +
                  expert_bytes(weights, n);
    work.working_set_bytes =
        weights.layers.bytes + weights.experts.bytes + weights.output.bytes + cached;
  }
  double& attention = load.role == model::Role::kPrompt ? work.tile_ops : work.f32_ops;
  for (uint32_t i = 1; i <= load.tokens; ++i)
    attention += attention_ops(config, cache, load.depth + i);
  work.bytes += to_double(weights.output.bytes);
  add_products(weights.layers, load.tokens, load.role, work);
  add_expert_products(weights, load.tokens, load.role, work);
  add_products(weights.output, 1, model::Role::kAnswer, work);
  return work;
}

Bound bound_of(const Work& work, const Calibration& calibration) {
  KVICK_CHECK(work.tile_ops == 0 || calibration.tile_ops_s > 0, "{} operations on no tiles",
              work.tile_ops);
  KVICK_CHECK(work.bf16_ops == 0 || calibration.bf16_ops_s > 0, "{} operations of bfloat16",
              work.bf16_ops);
  Bound bound = {
      .memory_s = work.bytes / calibration.read_bytes_s(work.working_set_bytes),
      .compute_s = work.int8_ops / calibration.int8_ops_s + work.f32_ops / calibration.f32_ops_s};
  if (work.bf16_ops > 0) bound.compute_s += work.bf16_ops / calibration.bf16_ops_s;
  if (work.tile_ops > 0) bound.compute_s += work.tile_ops / calibration.tile_ops_s;
  return bound;
}

bool raise_limits(const Work& work, double seconds, Calibration& calibration) {
  KVICK_CHECK(seconds > 0, "work done in {} s", seconds);
  constexpr double kRounding = 1 + 1e-9;  // keeps the bound below the time despite rounding
  const Bound bound = bound_of(work, calibration);
  bool raised = false;
  if (bound.memory_s > seconds)
    raised |= raise_read(calibration, work.working_set_bytes, work.bytes / seconds * kRounding);
  if (bound.compute_s > seconds) {
    const double factor = bound.compute_s / seconds * kRounding;
    if (work.int8_ops > 0) calibration.int8_ops_s *= factor;
    if (work.f32_ops > 0) calibration.f32_ops_s *= factor;
    if (work.bf16_ops > 0) calibration.bf16_ops_s *= factor;
    if (work.tile_ops > 0) calibration.tile_ops_s *= factor;
    raised = true;
  }
  return raised;
}

}  // namespace kvick::plan
