#pragma once
// For tests: a store beside its reference model, which is a list of row numbers per sequence.

#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "kv/registry/registry.h"
#include "kv/strategy/facet_calls.h"
#include "kv/strategy/selection.h"
#include "kv/testing/memory.h"
#include "kv/testing/shown.h"

namespace kvick::kv::test {

// One committed step of a sequence: its fresh rows, and the indices of those kept.
struct Fed {
  Rows fresh;
  std::vector<uint32_t> kept;
  bool observed = false;  // whether observe() was called in it
};

// Passes every call to both the store and the model.
struct Pair {
  // text: that of a case (see memory.h).
  Pair(const std::string& text, const Shape& shape_of_all, uint64_t max_bytes = UINT64_MAX,
       std::shared_ptr<Budget> budget = {});

  SeqId open();
  SeqId fork(SeqId seq);
  void close(SeqId seq);
  // Begins a step with new rows for the slots; returns null if there is no room.
  std::unique_ptr<Step> begin(std::vector<Slot> wanted);
  // Gives made-up probabilities for all views to a step that observes attention. Call it once all
  // layers are written; without it such a store forgets by age alone.
  void observe(Step& step);
  void commit(Step& step, const Kept& kept);
  // Runs one step that keeps everything.
  void add(SeqId seq, uint32_t rows);

  // Returns rows [first, first + count) of a sequence, as they are stored.
  std::vector<std::byte> read(SeqId seq, uint32_t first, uint32_t count) const;
  // Appends such rows; returns false if there is no room. A row's number serves as its token, so
  // equal tokens have equal rows.
  bool append(SeqId seq, const Rows& rows, std::span<const std::byte> bytes);

  // Returns the committed rows that a sequence still has: all of them if it ends at max_tokens and
  // has no window.
  Rows held(SeqId seq) const;
  // Returns the rows that slot s should show: the committed ones, then its fresh ones.
  Rows shown(uint32_t s) const;
  std::vector<std::byte> bytes_shown(uint32_t s, uint32_t layer, uint32_t head, bool is_v) const;

  // Checks a step whose layers are all written. A strategy must show every row as it was written
  // (or as converted once it is old); a policy as many rows as its budget allows, each as written;
  // slots must read what their definition reads. This reads the slots, which a step allows only
  // once.
  void expect_shown(Step& step) const;
  // The same for one layer of slots.
  void expect_slots_read(Step& step, uint32_t layer) const;
  // Checks the committed rows of every sequence through steps that are dropped.
  void expect_contents();
  // Also checks that each sequence shows what it would show alone in its own store: other
  // sequences, forks and dropped steps have changed nothing. For tests that fork with fork() and
  // commit with commit().
  void expect_as_if_alone();

  std::string spec;
  Shape shape;
  bool shows_rows;                  // false: it keeps slots
  bool shows_all;                   // shows every committed row; there is no policy
  bool forgets;                     // a policy drops rows for good
  uint32_t together;                // heads that share the rows that stay
  Selection selection;              // of a policy that keeps all rows
  uint32_t most_held = UINT32_MAX;  // committed rows that a step shows
  std::unique_ptr<Store> store;
  std::map<SeqId, Rows> twin;
  std::map<SeqId, std::vector<Fed>> fed;
  std::vector<Slot> slots;  // of the last begin
  Rows fresh;               // its rows, in batch order
  bool observed = false;    // whether observe() was called since the last begin
  Shortage shortage;        // of the last begin or append that failed
  Row next_row = 1;

 private:
  uint32_t committed(uint32_t s) const {
    return static_cast<uint32_t>(twin.at(slots[s].seq).size());
  }
  void expect_alone(SeqId seq);
};

}  // namespace kvick::kv::test
