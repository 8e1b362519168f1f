#pragma once
// Measures how well a model predicts a text, and how far its predictions diverge from those of a
// reference: another kind of cache, another model, or both.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "engine/core/engine.h"

namespace kvick::engine {

struct PerplexityOptions {
  // Tokens of one window; each window starts with an empty cache. The caches' max_tokens is the
  // window; an endless cache (kv::Traits) has what its options say, if they do.
  uint32_t window = 1024;
  // Leading tokens of a window that are read as a prompt: in large steps in which every policy
  // reads all rows. Their predictions do not count.
  uint32_t prompt = 0;
  uint32_t most = 0;  // use only this many tokens of the text; 0: all
  KvOptions kv;
  // The reference of the divergence, if either is given: the model `reference` (null: the same
  // model) with a cache of `against` (none: of `kv`). It reads the same tokens and must outlive the
  // call.
  Engine* reference = nullptr;
  std::optional<KvOptions> against;
  std::function<void(uint64_t done, uint64_t total)> progress;  // tokens
};

// Averages over all windows of `window` consecutive tokens (a shorter last one is left out unless
// it is the only one). Every token of a window is predicted from those before it, except the first,
// those of PerplexityOptions::prompt and the one after these.
struct Perplexity {
  double perplexity = 0;            // exp(mean negative log-likelihood)
  double nll = 0;                   // the mean, in nats
  double nll_error = 0;             // its standard error over windows
  uint64_t tokens = 0;              // tokens predicted
  double reference_perplexity = 0;  // over the same tokens; 0 without a reference
  // KL(reference || model) of the next-token distributions, in nats; 0 without a reference.
  double kl_mean = 0, kl_p99 = 0;
  double top1_agreement = 1;  // share of tokens for which both have the same likeliest token
  // For the last token of a full window, counted or by cost().
  uint64_t kv_read_bytes_per_token = 0, slow_read_bytes_per_token = 0;
  uint64_t kv_bytes = 0;  // bytes allocated for a full window, in all tiers
};

// Returns how many tokens perplexity() predicts. text: tokens of the text.
uint64_t predicted_tokens(size_t text, const PerplexityOptions& options);

// If a policy chooses rows, rows change with age or states are bf16, windows are read one token at
// a time, as in decoding, 16 of them side by side. Takes memory for both caches (of all these
// windows) and for the logits of 128 tokens of each model, however long the text is. Errors: a
// window longer than the context, unless the cache is endless; fewer than two tokens; a reference
// with another vocabulary; what make_store refuses; no room.
base::Result<Perplexity> perplexity(Engine& engine, std::span<const Token> text,
                                    const PerplexityOptions& options);

}  // namespace kvick::engine
