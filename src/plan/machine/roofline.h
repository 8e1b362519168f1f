#pragma once
// Computes the least time that a prefill or a decode can take on a machine: the time to read its
// bytes from memory, or the time to compute its operations, whichever is longer.

#include <cstdint>
#include <functional>

#include "model/core/config.h"
#include "model/core/model.h"
#include "plan/machine/calibration.h"

namespace kvick::plan {

// What attention reads from the cache.
struct CacheReads {
  // Bytes of the rows that the last of `tokens` tokens sees, in the stored types:
  // model::seen_bytes.
  std::function<uint64_t(uint32_t tokens)> seen_bytes;
  // Bytes read for one token by a sequence with `tokens` tokens, including that one:
  // kv::Cost::read_bytes_per_token.
  std::function<uint64_t(uint32_t tokens)> bytes;
  // Whether `bytes` counts all seen rows, though some have other types than seen_bytes assumes.
  bool all_rows = false;
};

struct Work {
  double bytes = 0;  // weights and cache rows, each counted once per forward that reads them
  // Operations by arithmetic, a multiply-add being two: with 8 bits, with float32, with bfloat16 in
  // pairs (kernels::Table::matmul_rounded), and with bfloat16 on tiles, which only prompts use.
  // Attention counts as its multiply-adds, though on tiles each takes 2.5 products, of numbers
  // split in two (docs/adr/0022-attention-of-prompts.md): attention alone reaches at most 40 % of
  // the bound.
  double int8_ops = 0, f32_ops = 0, bf16_ops = 0, tile_ops = 0;
  uint64_t working_set_bytes = 0;  // the weights and the cache rows of the last forward
  double ops() const { return int8_ops + f32_ops + bf16_ops + tile_ops; }
};

// `parallel` sequences with `depth` tokens each decode `tokens` more tokens each, together. Per
// step, where each sequence has t = depth + i tokens after step i:
//   bytes = layers + output + parallel * (looked-up rows + cache.bytes(t))
//   ops   = parallel * (2 * weights of layers and output + attention(t))
// with attention(t) = 2 * heads * (key + value elements) * rows, summed over layers, in float32: a
// product with each key and one with each value. rows: the rows that the layer sees of t, times
// cache.bytes(t) / seen_bytes(t) unless all_rows.
// layers and output exclude experts. Their bytes are those of the experts that the sequences are
// expected to choose (model::ExpertsConfig::share_read), their weights those that each token uses.
struct DecodeLoad {
  uint32_t depth = 0, tokens = 0, parallel = 1;
};
Work decode_work(const model::Config& config, const model::Weights& weights,
                 const CacheReads& cache, const DecodeLoad& load);

// A sequence with `depth` tokens computes `tokens` more in forwards of at most `chunk` tokens; the
// last forward computes the logits of one token. Per forward of n tokens, with t tokens after it:
//   bytes = layers + n * looked-up rows + cache.bytes(t)      (rows are shared by the n tokens)
//   ops   = n * 2 * weights of layers + attention(...) of each of its tokens
// plus output's bytes and 2 * output's weights once. The arithmetic depends on the tokens' role:
//   kAnswer         weights as in decode_work, attention in float32
//   kPromptLayers   weights of layers on tiles, but those of F32, as kernels::Table::matmul_prompt
//   kPrompt         attention on tiles too
// The output layer always counts as in decode_work.
struct PrefillLoad {
  uint32_t depth = 0, tokens = 0, chunk = 512;
  model::Role role = model::Role::kAnswer;
};
Work prefill_work(const model::Config& config, const model::Weights& weights,
                  const CacheReads& cache, const PrefillLoad& load);

// Least seconds. memory = bytes / read_bytes_s(working set); compute = int8_ops / int8_ops_s +
// f32_ops / f32_ops_s + bf16_ops / bf16_ops_s + tile_ops / tile_ops_s: a sum, because vector
// instructions share ports, and attention and linear layers wait for each other.
struct Bound {
  double memory_s = 0, compute_s = 0;
  bool by_memory() const { return memory_s >= compute_s; }
  double seconds() const { return by_memory() ? memory_s : compute_s; }
};
// With bf16_ops or tile_ops, the calibration must be of a machine that has them (KVICK_CHECK).
Bound bound_of(const Work& work, const Calibration& calibration);

// Corrects limits after a run that did the work in `seconds`. If that is less than the bound,
// limits were measured too low: raises them until bound_of() is at most `seconds`. For memory it
// raises the read speed of the working set; for arithmetic all kinds that the run used, by one
// factor, since it is unknown which was too low. Returns whether something was raised.
bool raise_limits(const Work& work, double seconds, Calibration& calibration);

}  // namespace kvick::plan
