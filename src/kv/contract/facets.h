#pragma once
// What only some strategies can do. A store or a step gives the facets that it has as pointers,
// which live as long as it does; null: not supported. Callers never cast to find out.
// Larger than 150 lines because whoever writes a store reads all of what it may do besides.
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

// Owned by the store or step that has it: nobody deletes one.
class Facet {
 protected:
  ~Facet() = default;
};

// -- of a step --

// Takes what the projections of a layer read: x: [sum of fresh][model dim] in batch order, and the
// tokens' positions: committed rows plus depth in the slot's tree. Before write of that layer.
class InputReader : Facet {
 public:
  virtual void inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) = 0;
};

// Takes the fresh rows of a layer in pieces, in batch order, in place of one write. Views of the
// layer may be made from its first piece on; they show unspecified bytes for fresh rows that are
// not written yet, which callers must mask.
class PieceWriter : Facet {
 public:
  // Instead of write: rows [first, first + count) of the batch's fresh ones, where the piece before
  // ended. All of them before commit.
  virtual void write_piece(uint32_t layer, uint32_t first, uint32_t count, const float* k,
                           const float* v) = 0;
};

// Takes the probabilities of a view's rows, summed over its queries. After that view, from many
// threads.
class Observer : Facet {
 public:
  virtual void observe(const Query& query, const kernels::View& view,
                       std::span<const float> probs) = 0;
};

// Shows chosen committed rows of a store whose rows are not all in memory.
class RowFetcher : Facet {
 public:
  // Instead of Step::view and under its rules: those committed rows, ascending, and all fresh ones.
  // They are in memory when it returns, until another layer is written or viewed.
  virtual void view_some(const Query& query, std::span<const uint32_t> rows, base::Arena& scratch,
                         kernels::View& out) = 0;
  // Starts to read rows that a layer's views will probably show, if there is memory to spare.
  // Query::q is not looked at. Before that layer is written, or while it is the last one written.
  virtual void prefetch(const Query& query, std::span<const uint32_t> rows) = 0;
};

// Slots instead of rows (Traits::slots): a layer is read once, by the queries of all sequences,
// and has no views.
class SlotReader : Facet {
 public:
  // The factor by which each token scales the slots' previous content (forget gate): [sum of
  // fresh][kv_heads]. Before write of that layer; not called: 1.
  virtual void gates(uint32_t layer, const float* gates) = 0;
  // Floats that the model needs of the last token in its next step: x: [sum of
  // fresh][Slots::carried]. Before commit, which keeps those of each sequence's last kept row; not
  // called: zeros.
  virtual void carry(uint32_t layer, const float* x) = 0;
  // What carry() kept of the last token of a slot's sequence: [Slots::carried]; zeros if nothing.
  virtual const float* carried(uint32_t layer, uint32_t slot) const = 0;
  // Attention of one layer over the slots as each token leaves them. After write of that layer.
  virtual void read(uint32_t layer, const SlotQueries& queries) = 0;
};

// States of a fixed size instead of rows: what a layer keeps of all tokens so far (convolutions,
// state spaces, delta rules). The model fills a layer's states, then calls write without rows.
class StateKeeper : Facet {
 public:
  // State of a slot's sequence before the step; zeros before its first token.
  virtual std::span<const std::byte> state(uint32_t layer, uint32_t slot) const = 0;
  // Where the state after a fresh row goes; with Slot::whole only the last row has one, else empty.
  virtual std::span<std::byte> state_after(uint32_t layer, uint32_t slot, uint32_t row) = 0;
};

// Takes the fresh rows of the batch's only slot as RowMover reads them: once, instead of write.
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
  bool per_query = false;  // views depend on Query::q, and take work
};

// -- of a store; while no step is alive, unless said --

// Reads committed rows as they are stored, for files and slower tiers: [group][layer][kv head][K,
// V][row], info().token_bytes() each. Steps of such a store have a RowSink, the inverse for a
// sequence that is as long as `first` was. Layers with a state have no rows: Checkpoints moves it.
class RowMover : Facet {
 public:
  // first: not before first_row().
  virtual void read_rows(SeqId seq, uint32_t first, uint32_t count,
                         std::span<std::byte> out) const = 0;
  // The first row that is still kept: earlier ones were given back (Shape::window).
  virtual uint32_t first_row(SeqId seq) const = 0;
  // From now on rows from `from` on stay, though no token to come sees them; UINT32_MAX: they go
  // when commit gives rows back.
  virtual void hold_rows(SeqId seq, uint32_t from) = 0;
  // The groups in that layout, where they are not those of the store's info.
  virtual std::span<const Shape> groups() const { return {}; }
};

// What the store holds.
class Holdings : Facet {
 public:
  // Evicts cached rows, least useful first, until `bytes` bytes are given back or none are left;
  // returns the bytes given back, which may be more, since eviction is by whole blocks.
  virtual uint64_t shrink(uint64_t bytes) = 0;
  // In the order in which they lie, or of their sequences; also while a step is alive. Without one
  // their bytes are all allocated ones.
  virtual std::vector<MapEntry> map() const = 0;
  // Seconds since the last use of the least recently used cached rows; negative: there are none,
  // or the store does not know.
  virtual double idle_seconds() const { return -1; }
};

// Checkpoints: places from which layers that do not keep every row (states, windows) can resume.
// The end of a closed sequence is one automatically.
class Checkpoints : Facet {
 public:
  // Keeps one for prompts that begin with the first `at` committed tokens of an open sequence.
  // Takes no memory now; what it holds is cached, and goes like cached rows. Nothing happens if the
  // tokens are not known (Slot::tokens).
  virtual void keep(SeqId seq, uint32_t at) = 0;
  // Whether `at` has to be the sequence's length, as states have it.
  virtual bool only_at_end() const = 0;
  // The states of all layers that keep one: their size in bytes per sequence, and the bytes of an
  // open sequence that has at least one token.
  virtual uint64_t state_bytes() const { return 0; }
  virtual void read_state(SeqId seq, std::span<std::byte> out) const { (void)seq, (void)out; }
  // The inverse, after rows were put (RowSink). Until then such a sequence can only be appended to
  // and closed.
  virtual void put_state(SeqId seq, std::span<const std::byte> state) { (void)seq, (void)state; }
};

// Sequences can be lost: a slower tier failed, or a commit had no memory.
class Health : Facet {
 public:
  // Why a sequence is lost, or empty. Its views are wrong, begin() is a Shortage, commits keep
  // nothing of it, and it can only be closed; other sequences are unharmed. Also while a step is
  // alive.
  virtual std::string failure(SeqId seq) const = 0;
  // Whether a sequence is lost because a commit had no memory, not because a slower tier failed.
  virtual bool ran_out_of_memory(SeqId seq) const = 0;
};

// Memory that grows by copying, in buckets (BMC, section VI-A).
class Buckets : Facet {
 public:
  // Fresh rows that the sequence's next step may have without making the store copy rows earlier
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
