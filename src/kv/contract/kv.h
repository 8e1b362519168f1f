#pragma once
// The contract between a model, a scheduler and a store of keys and values.
//
// A step is one transaction over a batch. It only adds rows; commit may forget some. begin()
// reserves room for all of the batch's fresh rows or for none; the model writes and views them
// layer by layer; then commit() keeps some of them, or the Step is destroyed without effect.
// Nothing irreversible (evicting, shifting, absorbing, quantising, sharing) happens before commit.
// begin() takes the memory that commit needs; if commit still lacks memory, its sequences are lost
// (Health).
//
// Order of calls per step: begin; then for each layer, in any order of layers: write once, then
// view (from many threads); then at most one commit, after all layers were written. The facets
// (facets.h) say where their calls belong. Commit or destruction ends a step. A Store has at most
// one step at a time, and while it is alive answers length, usage and info only. A Store is used
// from one thread at a time, except for Step::view, and outlives its Steps.
//
// Breaking these rules, or naming a sequence that is not open, throws base::Bug and changes
// nothing.

#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "kernels/attention/view.h"
#include "kv/contract/facets.h"
#include "kv/values/batch.h"
#include "kv/values/shape.h"
#include "kv/values/usage.h"

namespace kvick::kv {

class Step {
 public:
  virtual ~Step() = default;  // without commit: rolled back
  // Writes the fresh rows of one layer, in batch order. k: [sum of fresh][kv_heads][k_dim], already
  // rotated; v: [sum of fresh][kv_heads][v_dim], or null if the value is a part of the key.
  virtual void write(uint32_t layer, const float* k, const float* v) = 0;
  // Sets `out` to the rows that the queries attend to. With a window: committed rows from
  // Shape::first_seen() on. What `out` points to stays valid until the step ends or scratch is
  // reset; with Traits::tiered, until another layer is written or viewed.
  virtual void view(const Query& query, base::Arena& scratch, kernels::View& out) = 0;
  // Appends the fresh rows named by `kept` to their sequences.
  virtual void commit(const Kept& kept) = 0;
  // Returns the step's optional abilities; the same for all steps of a store.
  virtual StepFacets facets() { return {}; }
};

// The layers and the context that a store was made for.
struct StoreInfo {
  std::vector<Shape> groups;  // one per group of layers that are alike
  uint32_t most_tokens = 0;   // of one sequence

  uint64_t token_bytes() const;  // sum of Shape::token_bytes over all groups
  uint64_t used_bytes(uint32_t tokens) const;
};

class Store {
 public:
  explicit Store(StoreInfo info) : info_(std::move(info)) {}
  virtual ~Store() = default;
  // Opens a new sequence, empty except for the `cached` tokens. Takes no memory; begin does.
  virtual Opened open(std::span<const Token> prompt, const Owner& owner = {}) = 0;
  // Returns a new sequence with the same committed rows, or a Shortage and changes nothing. Neither
  // sequence sees rows that the other adds later.
  virtual base::Result<SeqId, Shortage> fork(SeqId seq) = 0;
  // Closes a sequence and gives back what only it held. Its id is never used again.
  virtual void close(SeqId seq) = 0;
  // Reserves room for every slot's fresh rows, or returns a Shortage and changes nothing. A
  // Shortage: past most_tokens, past the store's limit on allocated bytes or its shared budget, or
  // the system gives no memory (only then some memory may have grown). Cached rows are evicted
  // first.
  virtual base::Result<std::unique_ptr<Step>, Shortage> begin(const Batch& batch) = 0;
  virtual uint32_t length(SeqId seq) const = 0;  // committed tokens
  virtual Usage usage() const = 0;
  // Returns the store's optional abilities; they never change.
  virtual StoreFacets facets() { return {}; }

  const StoreInfo& info() const { return info_; }
  const Shape& shape() const { return info_.groups.front(); }  // of a store with one group
  uint32_t most_tokens() const { return info_.most_tokens; }

 private:
  StoreInfo info_;
};

}  // namespace kvick::kv
