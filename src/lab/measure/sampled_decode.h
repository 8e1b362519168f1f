#pragma once
// Samples the time of decoding with a whole model. At depths spread over the context the cache is
// filled without computing, to the state that single steps would have left, and a few steps are
// timed. Rare events (a growth, the compilation of a product) are timed where they happen, and
// their cost is divided among all tokens that they serve.

#include <span>

#include "lab/core/experiment.h"

namespace kvick::lab {

// A strategy and its attention, "fused" or "bmm".
struct Way {
  const char *spec, *attention;
};

// A point of a context at which decoding is sampled.
struct DecodePoint {
  std::string spec, attention;
  uint32_t tokens = 0;  // length of the whole context, for which the store is made
  uint32_t batch = 1;   // sequences that grow together
  uint32_t depth = 0;   // tokens in each sequence before the timed steps
};

// Converts a point to a cell and back. The key begins with the model's name; `what` has the
// parameters.
Cell cell_of(const Bench& bench, const DecodePoint& point);
DecodePoint point_of(const Cell& cell);

// Returns every way at every depth, with the tokens and batch of `like`.
std::vector<Cell> decode_cells(const Bench& bench, std::span<const Way> ways,
                               const DecodePoint& like, std::span<const uint32_t> depths);
// Returns the cells whose parameters include all of `what`.
std::vector<const Measured*> matching(std::span<const Measured> all, const Json& what);

// Measures the seconds of one step of the whole batch, with rows of float32:
//   begin_s, forward_s, commit_s  reserving rows; the model; the commit. Growth is divided evenly
//   compile_s                     compiling products, divided evenly; not part of the others
//   step_s                        all four
//   growing_step_s                the last step up to here that grew, with all that it compiled
// Also returns growth_tokens and compile_tokens, by which those costs were divided, and
// allocated_bytes. Error: the context exceeds the model's, or there is no room.
base::Result<Json> measure_decode(const Bench& bench, const DecodePoint& point);

// Returns the middles of `count` equal parts of the tokens from `from` to `to`; fewer if there are
// fewer tokens.
std::vector<uint32_t> sample_depths(uint32_t from, uint32_t to, uint32_t count);

// Seconds of `tokens` steps: `tokens` times the mean of the cells' medians, whose depths are evenly
// spread.
struct DecodeSeconds {
  double begin = 0, forward = 0, commit = 0, compile = 0;
  double all() const { return begin + forward + commit + compile; }
};
DecodeSeconds sum_over(std::span<const Measured* const> cells, uint32_t tokens);

// Decodes a context of tokens_ tokens in several ways, sampled at depths spread over it.
class WholeContext : public Experiment {
 public:
  static constexpr uint32_t kDepths = 8;
  static constexpr uint32_t kTokens = 2048, kBatch = 8;  // defaults, as in BMC's paper

  WholeContext(const Bench& bench, std::string_view name, std::span<const Way> ways)
      : bench_(bench),
        name_(name),
        ways_(ways),
        tokens_(bench.tokens != 0 ? bench.tokens : kTokens),
        batch_(bench.batch != 0 ? bench.batch : kBatch) {}

  base::Result<std::vector<Cell>> cells() final;
  base::Result<Json> measure(const Cell& cell) final;

 protected:
  const Bench bench_;
  const std::string_view name_;
  const std::span<const Way> ways_;
  const uint32_t tokens_, batch_;
};

// Error: the user gave no model to this experiment.
base::Status<> require_model(const Bench& bench, std::string_view experiment);
// Returns whether memory suffices for twice `bytes` of rows, as growing by copying needs, and for
// everything else. If not, tells the user that `what` is left out.
bool fits_memory(const Bench& bench, std::string_view what, uint64_t bytes);
// Returns the note for a table about how its numbers were sampled.
std::string sampling_note(uint32_t depths);

}  // namespace kvick::lab
