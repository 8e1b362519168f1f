#pragma once
// How well a model predicts a text, and how far it strays from a reference: another way of keeping
// its cache, another model, or both.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "engine/core/engine.h"

namespace kvick::engine {

struct PerplexityOptions {
  // Tokens of one window; each starts with an empty cache. The caches' max_tokens is the window,
  // but of an endless one (kv::Traits) what its options say, if they do.
  uint32_t window = 1024;
  // Tokens at the front of a window that are read as a prompt, in large steps in which every policy
  // reads all rows, and whose predictions do not count.
  uint32_t prompt = 0;
  uint32_t most = 0;  // tokens of the text that count; 0: all
  KvOptions kv;
  // The reference of the divergence, on the same tokens: where either is given, `reference` (or the
  // model itself) with its cache kept as `against` says (or as `kv` does). Must outlive the call.
  Engine* reference = nullptr;
  std::optional<KvOptions> against;
  std::function<void(uint64_t done, uint64_t total)> progress;  // tokens
};

// Over all windows of `window` consecutive tokens (a last shorter one is left out unless it is the
// only one), every token but the first of its window is predicted from those before it; those of
// PerplexityOptions::prompt and the next are not.
struct Perplexity {
  double perplexity = 0;            // exp(mean negative log-likelihood)
  double nll = 0;                   // the mean, in nats
  double nll_error = 0;             // its standard error over windows
  uint64_t tokens = 0;              // predicted
  double reference_perplexity = 0;  // over the same tokens; 0 without a reference
  // KL(reference || model) of the next-token distributions, in nats; 0 without a reference.
  double kl_mean = 0, kl_p99 = 0;
  double top1_agreement = 1;  // share of tokens for which both find the same token likeliest
  uint64_t kv_read_bytes_per_token = 0,
           slow_read_bytes_per_token = 0;  // of a full window's last token, counted or by cost()
  uint64_t kv_bytes = 0;                   // allocated for a full window, in all tiers
};

// How many of a text's tokens perplexity() predicts. text: how many it has.
uint64_t predicted_tokens(size_t text, const PerplexityOptions& options);

// Where a policy chooses rows or rows change with age, windows are read a token at a time, as in
// decoding, and 16 of them side by side. Takes memory for both caches (of so many windows) and the
// logits of 128 tokens of each model, however long the text. Errors: a window longer than a context
// that ends, fewer than two tokens, a reference with another vocabulary, what make_store refuses,
// no room.
base::Result<Perplexity> perplexity(Engine& engine, std::span<const Token> text,
                                    const PerplexityOptions& options);

}  // namespace kvick::engine
