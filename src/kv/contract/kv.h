#pragma once
// The contract between a model, a scheduler and a way of keeping keys and values.
//
// A step only adds; commit may forget. begin() reserves room for the batch's fresh rows (all slots
// or none), the model writes and views them layer by layer, and either commit() keeps some or the
// Step is destroyed and nothing happened: nothing irreversible (evicting, shifting, absorbing,
// quantising, sharing) happens before commit. Growth is not undone.
//
// Order, per step: begin; then for each layer, in any order of layers: write once, then view (from
// many threads), then observe (same); then at most one commit, after all layers were written. A
// store that wants a layer's inputs is given them before write, and so are gates; carried answers
// from begin on.
// commit or destruction ends the step. Until then it is the only Step of its Store, which meanwhile
// answers length, failure, usage, map and shape only. A Store is used from one thread at a time,
// but for view and observe. A Store outlives its Steps.
//
// A strategy that keeps a memory in place of rows (Traits::memory) has nothing to view: it answers
// read, once a layer, instead of view and observe.
//
// Breaking these rules, and naming a sequence that is not open, throws base::Bug and changes
// nothing.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "kernels/attention/view.h"
#include "kv/contract/batch.h"
#include "kv/contract/shape.h"

namespace kvick::kv {

// What a step asks of the model beside its rows; the same of all steps of a store (Traits).
struct Wants {
  bool queries = false;  // views depend on them, and take work
  bool probs = false;    // observe
  bool inputs = false;   // inputs
};

class Step {
 public:
  virtual ~Step() = default;  // without commit: rolled back
  virtual Wants wants() const { return {}; }
  // What the projections of a layer read, in batch order: x: [sum of fresh][model dim], and where
  // the tokens are in their texts: [sum of fresh], rows committed before them and their ancestors
  // in the slot's tree. Before write of that layer, and only if it is wanted.
  virtual void inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) {
    (void)layer, (void)x, (void)positions;
  }
  // The share of the memory that each token leaves of what was there before it is added, in batch
  // order: gates: [sum of fresh][kv_heads]. Before write of that layer; without it, all. Only if
  // Traits::memory.
  virtual void gates(uint32_t layer, const float* gates) { (void)layer, (void)gates; }
  // What the model wants to know of the last token when it goes on, in batch order: x: [sum of
  // fresh][Memory::carried]. Before commit, which keeps that of a sequence's last kept row; without
  // it, zeros. Only if Memory::carried.
  virtual void carry(uint32_t layer, const float* x) { (void)layer, (void)x; }
  // What was kept of the last token of a slot's sequence, [Memory::carried]; zeros of none.
  virtual const float* carried(uint32_t layer, uint32_t slot) const {
    (void)layer, (void)slot;
    return nullptr;
  }
  // The fresh rows of one layer, in batch order: k, v: [sum of fresh][kv_heads][head_dim], rotated
  // already.
  virtual void write(uint32_t layer, const float* k, const float* v) = 0;
  // The rows that the queries attend to; all of `out` is overwritten. Runs and memory stay valid
  // until the step ends or scratch is reset; of a tiered strategy (Traits), until another layer is
  // written or viewed.
  virtual void view(const Ask& ask, base::Arena& scratch, kernels::View& out) = 0;
  // The probabilities of view's rows, summed over the queries; only called if Traits::wants_probs.
  virtual void observe(const Ask& ask, const kernels::View& view, std::span<const float> probs) {
    (void)ask, (void)view, (void)probs;
  }
  // Attention of one layer over the memory as each token leaves it; only if Traits::memory.
  virtual void read(uint32_t layer, const Reading& reading) = 0;
  // Keeps those rows, behind the ones that were there, as the newest of their sequences.
  virtual void commit(const Kept& kept) = 0;
};

struct Opened {
  SeqId seq{};
  uint32_t cached = 0;  // tokens of the prompt whose rows are here already
};

class Store {
 public:
  virtual ~Store() = default;
  // A sequence of its own, empty but for `cached` tokens. Takes no memory: begin does.
  virtual Opened open(std::span<const Token> prompt, const Owner& owner = {}) = 0;
  // A sequence with the same committed rows, or a Shortage and no change. Neither sees what the
  // other does from then on.
  virtual base::Result<SeqId, Shortage> fork(SeqId seq) = 0;
  // Gives back what only this sequence held. Its id is never used again.
  virtual void close(SeqId seq) = 0;
  // Room for every slot's fresh rows, or a Shortage and no change: past most_tokens, past the
  // store's cap on allocated bytes or the budget that it shares, or past what the system gives
  // (only then, some growth may have happened). Cached rows give way before it is a Shortage.
  virtual base::Result<std::unique_ptr<Step>, Shortage> begin(const Batch& batch) = 0;
  // Committed rows [first, first + count) as they are stored, to keep them in a slower tier or a
  // file: [layer][kv head][K, V][row], count * shape().token_bytes() bytes. Only if
  // Traits::moves_rows.
  virtual void read_rows(SeqId seq, uint32_t first, uint32_t count,
                         std::span<std::byte> out) const = 0;
  // The inverse: commits such rows, as they are, as the newest of a sequence of the same length as
  // `first` was. All of them, or a Shortage and no change, as of begin.
  virtual base::Status<Shortage> append_rows(SeqId seq, std::span<const Token> tokens,
                                             std::span<const std::byte> rows) = 0;
  virtual uint32_t length(SeqId seq) const = 0;  // committed tokens
  // Why a sequence's rows are lost, if a slower tier has failed it; empty: they are not. What its
  // views show is not to be used, begin() is a Shortage, a commit keeps nothing of it, and it can
  // only be closed. Other sequences, of the same step too, are as good as before.
  virtual std::string failure(SeqId) const { return {}; }
  // Fresh rows that the sequence's next step may have before it has to move rows, or move them
  // sooner than a step of one row would: BMC's spare rows (section VI-A). At least 1.
  virtual uint32_t spare_rows(SeqId) const { return UINT32_MAX; }
  // Of one sequence: the shape's max_tokens or, where sequences grow past it (Traits::endless), the
  // positions that the model knows.
  virtual uint32_t most_tokens() const = 0;
  // Gives cached rows back, those that matter least first, until that is so many bytes or none are
  // left; returns how many. They come in whole blocks: it may be more than was asked for.
  virtual uint64_t shrink(uint64_t bytes) = 0;
  virtual Usage usage() const = 0;
  // Pieces in the order in which they lie, or of their sequences. While no step is alive their
  // bytes are all allocated ones.
  virtual std::vector<Piece> map() const = 0;
  virtual const Shape& shape() const = 0;
};

}  // namespace kvick::kv
