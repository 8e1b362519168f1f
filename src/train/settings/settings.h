#pragma once
// The settings of a model and of its training, read from the command line and kept in every
// checkpoint.

#include <cstdint>
#include <string>

#include "train/settings/options.h"

namespace kvick::train {

// How a token updates the memory of slots MV, with write weights ww and write value wv
// (docs/adr/0014-training-apart.md). plain: MV += wwᵀ·wv; step: the same times a step size per
// token; gated: a gate per token shrinks MV first; delta: what MV answers at ww moves towards wv.
inline const char* const kUpdates[] = {"plain", "step", "gated", "delta"};
// The inputs of a token's write query: its own, or also the previous token's through a second
// matrix, so that a value can be found by the token before it.
inline const char* const kAddresses[] = {"own", "both"};

// What attention does to a head's output from the memory: nothing, or a norm
// (docs/adr/0008-a-memory-of-slots.md), so that the block's output depends neither on the number of
// slots nor on how long the memory lasts.
inline const char* const kReads[] = {"plain", "normed"};

struct ModelSettings {
  std::string arch = "llama";  // general.architecture of the exported file: llama or bct
  std::string update = "step", address = "own", read = "plain";
  uint64_t dim = 256, layers = 4, heads = 4;
  uint64_t kv_heads = 0;  // 0: as many as heads
  uint64_t head_dim = 0;  // 0: dim / heads
  uint64_t ffn = 0;       // 0: 8/3 of dim, rounded up to a multiple of 32
  uint64_t vocab = 0;     // from the data
  uint64_t ctx = 256, slots = 256;
  uint64_t context = 0;  // longest sequence that the model file states; 0: ctx
  // Values of a low-rank key of MAPLE's predictor, per KV head; 0: no predictor.
  uint64_t rank = 0;
  // Initial state of a gated memory: the number of tokens after which the first and the last KV
  // head have kept 1/e of a value. The heads between are spaced geometrically.
  double shortest = 100, longest = 100;
  double rope_base = 10000, norm_eps = 1e-5;

  bool has_memory() const { return arch == "bct"; }
  uint64_t q_dim() const { return heads * head_dim; }
  uint64_t kv_dim() const { return kv_heads * head_dim; }
};

struct RunSettings {
  std::string task = "text";  // text, mqar, copy, or answers (of another model)
  std::string train = "all";  // all, or blocks: all but the embedding and the last norm
  uint64_t pairs = 16;        // mqar: keys to remember; copy: tokens to copy
  uint64_t symbols = 256;     // vocabulary of mqar and copy
  uint64_t batch = 16, steps = 1000, warmup = 50, seed = 1;
  double minutes = 0;  // if above 0: train this long, with a schedule by time instead of steps
  double lr = 1e-3, least_lr = 0.1;  // least_lr: share of lr at the end of the cosine
  uint64_t negatives = 0;  // answers: tokens drawn for a step's loss; 0: the whole vocabulary
  // With a predictor: the rows that attention reads (train/network/selected_attention.h), and the
  // weight of the predicted scores' error in the loss (MAPLE, equation 3).
  double budget = 0.25, alpha = 1;
  uint64_t least = 128, sinks = 4, recent = 32;
  double weight_decay = 0.1, beta2 = 0.95, clip = 1, dropout = 0;
  std::string precision = "auto";  // f32 or bf16; auto: bf16 on a GPU
};

struct Settings {
  ModelSettings model;
  RunSettings run;
};

// Returns `before` with the options given; `vocab` and `arch` are not options.
Settings read_settings(Options& options, Settings before);
// Fills in settings that are 0. Throws Mistake for those that are invalid or that the engine lacks.
void complete(Settings& settings);

// Converts settings to lines "name=value\n", and back.
std::string to_text(const Settings& settings);
Settings settings_from_text(const std::string& text);
// Returns the names of settings that differ, except steps and minutes, which a resumed run may
// change.
std::string differing(const Settings& a, const Settings& b);

}  // namespace kvick::train
