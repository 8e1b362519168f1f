#pragma once
// Measures, for the policy duo, how much the output of each KV head changes if the head sees only
// the sinks and the newest rows (DuoAttention, Xiao et al. 2024, arXiv:2410.10819).
//
// The paper finds these heads by training a gate for each on made-up texts with passkeys, from
// beginning to end. Here each head is measured alone, without gradients: a sequence is a passage of
// the text, the text that follows, and the passage again. In the second copy a head that looks up
// what followed earlier reads the first copy, which is far outside of the newest rows.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "distil/distil.h"

namespace kvick::distil {

// The rows that a query sees if distant ones are dropped; its own row is the newest.
struct NearRows {
  uint32_t sinks = 16, recent = 64;
};

struct DuoOptions {
  uint32_t window = 2048;  // tokens of one sequence; the passage at both ends takes an eighth
  NearRows near = {};
  uint32_t most = 0;  // most tokens of the text to use; 0: all
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens of sequences
};

// Sums over the queries of a KV head, where `all` and `near` are a query's output with all rows and
// with the near ones alone.
struct OutputChange {
  double square = 0;  // of |all - near|
  double most = 0;    // of (|all| + |near|) squared, which is never less

  // Returns the score of the head, in [0, 1].
  double score() const;
  void add(const OutputChange& other) {
    square += other.square;
    most += other.most;
  }
};

struct HeadScores {
  kv::Predictor predictor;  // of the form retrieval
  // Of the quarter of all heads with the highest scores on every second sequence, the share that is
  // among the highest quarter on the other sequences too.
  double agreement = 0;
  uint64_t sequences = 0, tokens = 0;  // tokens: of the text
};

// Deterministic: the result does not depend on the number of threads. Errors: those of
// check_windows; a window in which the second copy sees the first without distant rows; activations
// that are not finite.
base::Result<HeadScores> measure_heads(engine::Engine& engine, std::span<const engine::Token> text,
                                       const DuoOptions& options);

// Returns sequence `number` of a text: a passage, what follows it, the passage again; `window`
// tokens. Sequences divide the text among themselves.
std::vector<engine::Token> repeated(std::span<const engine::Token> text, uint32_t window,
                                    uint64_t number);

// Returns the changes of a layer's KV heads over the queries from token `first` on.
std::vector<OutputChange> changes(const LayerActivations& layer, const model::LayerConfig& heads,
                                  const NearRows& near, uint32_t first,
                                  const kernels::Table& kernels, base::ThreadPool& pool);

// The predictor file to write. text: the name of the text.
engine::PredictorFile file_of(const HeadScores& made, const engine::ModelIdentity& model,
                              const std::string& text);

}  // namespace kvick::distil
