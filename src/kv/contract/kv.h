#pragma once
// The contract between a model, a scheduler and a way of keeping keys and values.
//
// A step is one transaction over a batch. It only adds; commit may forget. begin() reserves room
// for all of the batch's fresh rows or for none; the model writes and views them layer by layer;
// then commit() keeps some of them, or the Step is destroyed and nothing happened. Nothing
// irreversible (evicting, shifting, absorbing, quantising, sharing) happens before commit. What
// commit needs is taken by begin(); if it lacks memory all the same, its sequences are lost
// (Health).
//
// Order, per step: begin; then for each layer, in any order of layers: write once, then view (from
// many threads); then at most one commit, after all layers were written. The facets (facets.h) say
// where their calls belong. A step that was committed or destroyed has ended. Until then it is the
// only Step of its Store, which meanwhile answers length, usage and info only. A Store is used from
// one thread at a time, except for Step::view, and outlives its Steps.
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
  // The fresh rows of one layer, in batch order: k: [sum of fresh][kv_heads][k_dim], v: [sum of
  // fresh][kv_heads][v_dim], rotated already. v is null where the value is a part of the key.
  virtual void write(uint32_t layer, const float* k, const float* v) = 0;
  // The rows that the queries attend to; overwrites all of `out`. With a window: committed rows
  // from Shape::first_seen() on. What it points to stays valid until the step ends or scratch is
  // reset; with Traits::tiered, until another layer is written or viewed.
  virtual void view(const Query& query, base::Arena& scratch, kernels::View& out) = 0;
  // Keeps those fresh rows as the newest of their sequences.
  virtual void commit(const Kept& kept) = 0;
  // What else the step takes or offers; the same for all steps of a store.
  virtual StepFacets facets() { return {}; }
};

// What a store was made for.
struct StoreInfo {
  std::vector<Shape> groups;  // of layers that are alike
  uint32_t most_tokens = 0;   // of one sequence

  uint64_t token_bytes() const;  // Shape::token_bytes, of all groups
  uint64_t used_bytes(uint32_t tokens) const;
};

class Store {
 public:
  explicit Store(StoreInfo info) : info_(std::move(info)) {}
  virtual ~Store() = default;
  // A new sequence, empty but for `cached` tokens. Takes no memory: begin does.
  virtual Opened open(std::span<const Token> prompt, const Owner& owner = {}) = 0;
  // A sequence with the same committed rows, or a Shortage and no change. From then on neither sees
  // what the other adds.
  virtual base::Result<SeqId, Shortage> fork(SeqId seq) = 0;
  // Gives back what only this sequence held. Its id is never used again.
  virtual void close(SeqId seq) = 0;
  // Room for every slot's fresh rows, or a Shortage and no change: past most_tokens, past the
  // store's limit on allocated bytes or the budget that it shares, or past what the system gives
  // (only then, some memory may have grown). Cached rows are evicted first.
  virtual base::Result<std::unique_ptr<Step>, Shortage> begin(const Batch& batch) = 0;
  virtual uint32_t length(SeqId seq) const = 0;  // committed tokens
  virtual Usage usage() const = 0;
  // What else the store can do; the same for as long as it lives.
  virtual StoreFacets facets() { return {}; }

  const StoreInfo& info() const { return info_; }
  const Shape& shape() const { return info_.groups.front(); }  // where there is one group
  uint32_t most_tokens() const { return info_.most_tokens; }

 private:
  StoreInfo info_;
};

}  // namespace kvick::kv
