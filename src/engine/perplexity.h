#pragma once
// How well a model predicts a text, and how far one way of keeping its cache strays from another.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "engine/engine.h"

namespace kvick::engine {

struct PerplexityOptions {
  uint32_t window = 1024;  // tokens of one window; each starts with an empty cache
  uint32_t most = 0;       // tokens of the text that count; 0: all
  KvOptions kv;
  std::optional<KvOptions> against;  // the reference of the divergence, on the same tokens
  std::function<void(uint64_t done, uint64_t total)> progress;  // tokens
};

// Over all windows of `window` consecutive tokens (a last shorter one is left out unless it is the
// only one), every token but the first of its window is predicted from those before it.
struct Perplexity {
  double perplexity = 0;  // exp(mean negative log-likelihood)
  double nll = 0;         // the mean, in nats
  double nll_error = 0;   // its standard error over windows
  uint64_t tokens = 0;    // predicted
  // KL(against || kv) of the next-token distributions, in nats; 0 without `against`.
  double kl_mean = 0, kl_p99 = 0;
  double top1_agreement = 1;
  uint64_t kv_read_bytes_per_token = 0,
           slow_read_bytes_per_token = 0;  // of a full window's last token, by cost()
  uint64_t kv_bytes = 0;                   // allocated for a full window
};

// Errors: a window longer than the context, fewer than two tokens, what make_store refuses, no
// room.
base::Result<Perplexity> perplexity(Engine& engine, std::span<const Token> text,
                                    const PerplexityOptions& options);

}  // namespace kvick::engine
