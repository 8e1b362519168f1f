#pragma once
// The time of decoding with a whole model, sampled: at depths spread over the context the cache is
// filled without computing, to the state that single steps would have left, and a few steps are
// timed. What happens once in many tokens (a growth, the compiling of a product) is timed where it
// happens and charged to all tokens that it serves.

#include <span>

#include "lab/core/experiment.h"

namespace kvick::lab {

// A strategy and the attention over it, "fused" or "bmm".
struct Way {
  const char *spec, *attention;
};

// Where a context is sampled.
struct DecodePoint {
  std::string spec, attention;
  uint32_t tokens = 0;  // of the whole context, which the store is made for
  uint32_t batch = 1;   // sequences that grow together
  uint32_t depth = 0;   // tokens that each holds before the steps that are timed
};

// The point as a cell: its key begins with the model's name, and `what` has its parameters.
Cell cell_of(const Bench& bench, const DecodePoint& point);
DecodePoint point_of(const Cell& cell);

// Every way at every depth, with the tokens and batch of `like`.
std::vector<Cell> decode_cells(const Bench& bench, std::span<const Way> ways,
                               const DecodePoint& like, std::span<const uint32_t> depths);
// The cells whose parameters include all of `what`.
std::vector<const Measured*> matching(std::span<const Measured> all, const Json& what);

// Seconds of one step of the whole batch, rows of float32:
//   begin_s, forward_s, commit_s  room for the rows; the model; the commit. Growth charged evenly
//   compile_s                     the library's products, charged evenly, and in none of the others
//   step_s                        all four
//   growing_step_s                the last step that grew up to there, with all that it compiled
// and growth_tokens and compile_tokens, over which those were charged, and allocated_bytes.
// Error: a context that is the model's no more, or no room.
base::Result<Json> measure_decode(const Bench& bench, const DecodePoint& point);

// The middles of `count` equal parts of the tokens from `from` to `to`; less where there are less.
std::vector<uint32_t> sample_depths(uint32_t from, uint32_t to, uint32_t count);

// Seconds of `tokens` steps: `tokens` times the mean of the cells' medians, whose depths are evenly
// spread.
struct DecodeSeconds {
  double begin = 0, forward = 0, commit = 0, compile = 0;
  double all() const { return begin + forward + commit + compile; }
};
DecodeSeconds sum_over(std::span<const Measured* const> cells, uint32_t tokens);

// Decodes a context of tokens_ tokens in each of several ways, sampled at depths spread over it.
class WholeContext : public Experiment {
 public:
  static constexpr uint32_t kDepths = 8;
  static constexpr uint32_t kTokens = 2048, kBatch = 8;  // where not chosen; as in BMC's paper

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

// Error: no model was given to the experiment of that name.
base::Status<> require_model(const Bench& bench, std::string_view experiment);
// Whether memory suffices for twice `bytes` of rows, as growing by copying needs, and for
// everything else; if not, the user is told that `what` is left out.
bool fits_memory(const Bench& bench, std::string_view what, uint64_t bytes);
// The note in a table about how its numbers were sampled.
std::string sampling_note(uint32_t depths);

}  // namespace kvick::lab
