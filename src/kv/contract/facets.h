#pragma once
// Abilities that only some strategies have. A store or a step returns its facets as pointers, which
// live as long as the store or the step; null: not supported. Callers never cast to find out.
// Larger than 150 lines because the author of a store reads all optional abilities in one place.
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "kernels/attention/view.h"
#include "kv/values/batch.h"
#include "kv/values/shape.h"
#include "kv/values/usage.h"

namespace kvick::kv {

// Owned by its store or step; callers never delete it.
class Facet {
 protected:
  ~Facet() = default;
};

// -- of a step --

// Takes the input of a layer's projections, x: [sum of fresh][model dim] in batch order, and the
// tokens' positions: committed rows plus depth in the slot's tree. Called before write of that
// layer.
class InputReader : Facet {
 public:
  virtual void inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) = 0;
};

// Takes the fresh rows of a layer in pieces, in batch order, in place of one write. The layer can
// be viewed after its first piece. Views show unspecified bytes for fresh rows that are not written
// yet; callers must mask these.
class PieceWriter : Facet {
 public:
  // Writes rows [first, first + count) of the batch's fresh rows; `first` is the end of the
  // previous piece. All pieces must be written before commit.
  virtual void write_piece(uint32_t layer, uint32_t first, uint32_t count, const float* k,
                           const float* v) = 0;
};

// Takes the attention probabilities of a view's rows, summed over its queries. Called after that
// view, from many threads.
class Observer : Facet {
 public:
  static constexpr uint32_t kQueriesOnly = UINT32_MAX;
  // Returns how many of a slot's last tokens are observed one by one, and no others; 0: all tokens
  // are summed. kQueriesOnly: observe() gets the queries of all tokens, and no probabilities, which
  // would have to be computed apart from attention.
  virtual uint32_t apart(uint32_t layer) const {
    (void)layer;
    return 0;
  }
  // probs: [rows of the view], or [min(apart, fresh)][rows of the view], summed over the query
  // heads of the KV head; empty with kQueriesOnly.
  virtual void observe(const Query& query, const kernels::View& view,
                       std::span<const float> probs) = 0;
};

// Makes views of chosen committed rows, for a store whose rows are not all in memory.
class RowFetcher : Facet {
 public:
  // Called instead of Step::view, under the same rules. Shows the committed rows `rows`, which
  // ascend, and all fresh rows. They stay in memory until another layer is written or viewed.
  virtual void view_some(const Query& query, std::span<const uint32_t> rows, base::Arena& scratch,
                         kernels::View& out) = 0;
  // Starts to read rows that a layer's views will probably show, if memory is free. Ignores
  // Query::q. Called before that layer is written, or while it is the last layer written.
  virtual void prefetch(const Query& query, std::span<const uint32_t> rows) = 0;
};

// Slots instead of rows (Traits::slots): each layer is read once per step, by the queries of all
// sequences, and has no views.
class SlotReader : Facet {
 public:
  // Takes the forget gates: the factor by which each token scales the slots' previous content, [sum
  // of fresh][kv_heads]. Called before write of that layer; without a call all gates are 1.
  virtual void gates(uint32_t layer, const float* gates) = 0;
  // Takes floats of each token that the model needs again in the next step: x: [sum of
  // fresh][Slots::carried]. Called before commit, which keeps the floats of each sequence's last
  // kept row; without a call it keeps zeros.
  virtual void carry(uint32_t layer, const float* x) = 0;
  // Returns the floats that carry() kept for a slot's sequence: [Slots::carried]; zeros if none.
  virtual const float* carried(uint32_t layer, uint32_t slot) const = 0;
  // Computes attention of one layer: each token reads the slots as they are after that token.
  // Called after write of that layer.
  virtual void read(uint32_t layer, const SlotQueries& queries) = 0;
};

// States of a fixed size instead of rows: a layer's summary of all tokens so far (convolutions,
// state space models, delta rules). The model fills a layer's states, then calls write without
// rows.
class StateKeeper : Facet {
 public:
  // Returns the state of a slot's sequence before the step; zeros before its first token.
  virtual std::span<const std::byte> state(uint32_t layer, uint32_t slot) const = 0;
  // Returns the buffer for the state after a fresh row. With Slot::whole only the last row has one;
  // the span of any other row is empty.
  virtual std::span<std::byte> state_after(uint32_t layer, uint32_t slot, uint32_t row) = 0;
};

// Takes all fresh rows of a batch with one slot, in the layout of RowMover::read_rows. Called once,
// instead of write.
class RowSink : Facet {
 public:
  virtual void put(std::span<const std::byte> rows) = 0;
};

struct StepFacets {
  InputReader* inputs = nullptr;
  PieceWriter* pieces = nullptr;
  Observer* observer = nullptr;
  RowFetcher* fetcher = nullptr;
  SlotReader* slots = nullptr;
  StateKeeper* states = nullptr;
  RowSink* sink = nullptr;
  bool per_query = false;  // views depend on Query::q and are costly
};

// -- of a store; called while no step is alive, unless the comment says otherwise --

// Reads committed rows as they are stored, for files and slower tiers. Layout: [group][layer][kv
// head][K, V][row], info().token_bytes() bytes per row. Steps of such a store have a RowSink, the
// inverse: it appends these bytes to a sequence of length `first`. Layers with a state have no
// rows; Checkpoints reads and writes their states.
class RowMover : Facet {
 public:
  // first: at least first_row().
  virtual void read_rows(SeqId seq, uint32_t first, uint32_t count,
                         std::span<std::byte> out) const = 0;
  // Returns the first row that is still kept; earlier rows were given back (Shape::window).
  virtual uint32_t first_row(SeqId seq) const = 0;
  // Keeps rows from `from` on even after they leave the window. UINT32_MAX ends this: the next
  // commit that gives rows back also gives these back.
  virtual void hold_rows(SeqId seq, uint32_t from) = 0;
  // Returns the groups of that layout, if they differ from info().groups; else empty.
  virtual std::span<const Shape> groups() const { return {}; }
};

// The memory that the store holds.
class Holdings : Facet {
 public:
  // Evicts cached rows, least useful first, until `bytes` bytes are given back or none are left;
  // returns the bytes given back, which may be more, since eviction is by whole blocks.
  virtual uint64_t shrink(uint64_t bytes) = 0;
  // Returns pieces of memory in the order of their place in memory, or of their sequences. May be
  // called while a step is alive; without a step the pieces add up to Usage::allocated_bytes.
  virtual std::vector<MapEntry> map() const = 0;
  // Returns the seconds since the last use of the least recently used cached rows; negative: there
  // are no cached rows, or the store does not know.
  virtual double idle_seconds() const { return -1; }
};

// Checkpoints: positions from which layers that do not keep every row (states, windows) can resume.
// The end of a closed sequence automatically becomes a checkpoint.
class Checkpoints : Facet {
 public:
  // Keeps a checkpoint for prompts that begin with the first `at` committed tokens of an open
  // sequence. Takes no memory now; what the checkpoint holds is cached, and evicted like cached
  // rows. Does nothing if the tokens are not known (Slot::tokens).
  virtual void keep(SeqId seq, uint32_t at) = 0;
  // Returns whether `at` must be the sequence's length, as it must for states.
  virtual bool only_at_end() const = 0;
  // The states of all layers that keep one: state_bytes() returns their size per sequence;
  // read_state() copies those of an open sequence with at least one token.
  virtual uint64_t state_bytes() const { return 0; }
  virtual void read_state(SeqId seq, std::span<std::byte> out) const { (void)seq, (void)out; }
  // The inverse of read_state(), called after rows were put (RowSink). Until then such a sequence
  // can only be appended to and closed.
  virtual void put_state(SeqId seq, std::span<const std::byte> state) { (void)seq, (void)state; }
};

// Reports lost sequences. A sequence is lost if a slower tier failed, or a commit had no memory.
class Health : Facet {
 public:
  // Returns why a sequence is lost; empty if it is not. A lost sequence has wrong views, begin()
  // returns a Shortage, commits keep none of its rows, and it can only be closed. Other sequences
  // are unharmed. May be called while a step is alive.
  virtual std::string failure(SeqId seq) const = 0;
  // Returns whether a sequence is lost because a commit had no memory, not because a slower tier
  // failed.
  virtual bool ran_out_of_memory(SeqId seq) const = 0;
};

// Memory that grows by copying, in buckets (BMC, section VI-A).
class Buckets : Facet {
 public:
  // Returns how many fresh rows the sequence's next step may have without growing the bucket sooner
  // than steps of one row would. At least 1.
  virtual uint32_t spare_rows(SeqId seq) const = 0;
};

struct StoreFacets {
  RowMover* rows = nullptr;
  Holdings* holdings = nullptr;
  Health* health = nullptr;
  Buckets* buckets = nullptr;
  Checkpoints* checkpoints = nullptr;
};

}  // namespace kvick::kv
