#pragma once
// The least time that a prefill or a decode can take on a machine: what it must read at the speed
// of memory, or what it must compute at the speed of arithmetic, whichever is longer.

#include <cstdint>
#include <functional>

#include "model/core/config.h"
#include "model/core/model.h"
#include "plan/machine/calibration.h"

namespace kvick::plan {

// What attention reads.
struct CacheReads {
  // Bytes of the rows that the last of `tokens` tokens sees, in written types: model::seen_bytes.
  std::function<uint64_t(uint32_t tokens)> seen_bytes;
  // Bytes read for one token by a sequence that holds `tokens`, that one included:
  // kv::Cost::read_bytes_per_token.
  std::function<uint64_t(uint32_t tokens)> bytes;
  // Whether `bytes` is for all seen rows, some of them in other types than seen_bytes assumes.
  bool all_rows = false;
};

struct Work {
  double bytes = 0;  // weights and cache rows, each counted once per forward that reads them
  // By arithmetic, a multiply-add being two: products of 8 bits, of float32, of bfloat16 in pairs
  // (kernels::Table::matmul_rounded), and of bfloat16 on tiles, which only prompts have. Attention
  // counts as its multiply-adds, though on tiles each takes 2.5 products of numbers that are split
  // in two (docs/adr/0022-attention-of-prompts.md): by itself it would reach 40 % of the bound at
  // most.
  double int8_ops = 0, f32_ops = 0, bf16_ops = 0, tile_ops = 0;
  uint64_t working_set_bytes = 0;  // the weights and the cache rows of the last forward
  double ops() const { return int8_ops + f32_ops + bf16_ops + tile_ops; }
};

// `parallel` sequences that hold `depth` tokens each decode `tokens` more each, together. Per step,
// where step i leaves t = depth + i tokens in each sequence:
//   bytes = layers + output + parallel * (looked-up rows + cache.bytes(t))
//   ops   = parallel * (2 * weights of layers and output + attention(t))
// Of experts, bytes are those of the ones that the sequences are expected to choose
// (model::ExpertsConfig::share_read), and weights those that each token meets; layers and output
// are without them.
// with attention(t) = 2 * heads * (key + value elements) * rows of each layer, float32: a product
// with each key and one with each value, rows = cache.bytes(t) / seen_bytes(t) of the rows that the
// layer sees of t, or all of those if they are all_rows.
struct DecodeLoad {
  uint32_t depth = 0, tokens = 0, parallel = 1;
};
Work decode_work(const model::Config& config, const model::Weights& weights,
                 const CacheReads& cache, const DecodeLoad& load);

// A sequence that holds `depth` tokens takes `tokens` more in forwards of at most `chunk` tokens;
// the last one computes one token's logits. Per forward of n tokens that leaves t in the sequence:
//   bytes = layers + n * looked-up rows + cache.bytes(t)      (rows are shared by the n tokens)
//   ops   = n * 2 * weights of layers + attention(...) of each of its tokens
// and output's bytes and 2 * output's weights once. By the role of its tokens:
//   kAnswer         weights as in decode_work, attention in float32
//   kPromptLayers   weights of layers on tiles, but those of F32, as kernels::Table::matmul_prompt
//   kPrompt         attention on tiles too
// The output layer is that of answers in each.
struct PrefillLoad {
  uint32_t depth = 0, tokens = 0, chunk = 512;
  model::Role role = model::Role::kAnswer;
};
Work prefill_work(const model::Config& config, const model::Weights& weights,
                  const CacheReads& cache, const PrefillLoad& load);

// Seconds. memory = bytes / read_bytes_s(working set); compute = int8_ops / int8_ops_s +
// f32_ops / f32_ops_s + bf16_ops / bf16_ops_s + tile_ops / tile_ops_s, a sum because vectors need
// the same ports, and attention and linear layers wait for each other.
struct Bound {
  double memory_s = 0, compute_s = 0;
  bool by_memory() const { return memory_s >= compute_s; }
  double seconds() const { return by_memory() ? memory_s : compute_s; }
};
// With bf16_ops or tile_ops, the calibration must be of a machine that has them (KVICK_CHECK).
Bound bound_of(const Work& work, const Calibration& calibration);

// Corrects limits by a run that did the work in `seconds`. If that is less than its bound, limits
// were measured too low: they are raised until bound_of() is at most `seconds`. For memory this is
// the read speed of its working set; for arithmetic it is all kinds that the run used, by one
// factor, since it is unknown which was too low. True: something was raised.
bool raise_limits(const Work& work, double seconds, Calibration& calibration);

}  // namespace kvick::plan
