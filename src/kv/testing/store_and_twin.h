#pragma once
// For tests: a store beside its trivial model, which is a list of row numbers per sequence.

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

// One step of a sequence that was committed: its fresh rows, and the numbers of those kept.
struct Fed {
  Rows fresh;
  std::vector<uint32_t> kept;
  bool observed = false;  // whether observe() was called in it
};

// Every call goes to both, the store and the model.
struct Pair {
  // text: of a case (cases.h).
  Pair(const std::string& text, const Shape& shape_of_all, uint64_t max_bytes = UINT64_MAX,
       std::shared_ptr<Budget> budget = {});

  SeqId open();
  SeqId fork(SeqId seq);
  void close(SeqId seq);
  // Invents rows for the slots; null if there is no room.
  std::unique_ptr<Step> begin(std::vector<Slot> wanted);
  // Tells a step that observes attention of made-up probabilities for all of its views. Once all
  // layers are written; without it such a store forgets by age alone.
  void observe(Step& step);
  void commit(Step& step, const Kept& kept);
  // One whole step that keeps everything.
  void add(SeqId seq, uint32_t rows);

  // Rows [first, first + count) of a sequence, as they are stored.
  std::vector<std::byte> read(SeqId seq, uint32_t first, uint32_t count) const;
  // Appends such rows; false if there is no room. A row's number is its token, so that equal tokens
  // have equal rows.
  bool append(SeqId seq, const Rows& rows, std::span<const std::byte> bytes);

  // Committed rows that a sequence still has: all of them, if it ends at max_tokens and has no
  // window.
  Rows held(SeqId seq) const;
  // Rows that slot s should show: what is committed, then its fresh ones.
  Rows shown(uint32_t s) const;
  std::vector<std::byte> bytes_shown(uint32_t s, uint32_t layer, uint32_t head, bool is_v) const;

  // Expects of a step whose layers are all written that it shows what such a strategy has to show:
  // every row as it was written (or as it is kept once it is old); of a policy, as many rows as its
  // budget says, each as it was written; of slots, what their definition reads. Slots are read by
  // this, which a step allows once.
  void expect_shown(Step& step) const;
  // The same of one layer of slots.
  void expect_slots_read(Step& step, uint32_t layer) const;
  // Looks at the committed rows of every sequence through steps that are dropped.
  void expect_contents();
  // The same, and that each sequence shows what it would if it were alone in a store of its own:
  // what other sequences, forks and dropped steps did has changed nothing. For tests that fork by
  // fork() and commit by commit().
  void expect_as_if_alone();

  std::string spec;
  Shape shape;
  bool shows_rows;                  // else it keeps slots
  bool shows_all;                   // every committed row, without a policy
  bool forgets;                     // rows for good, by a policy
  Selection selection;              // of the policy, if it leaves rows in place
  uint32_t most_held = UINT32_MAX;  // committed rows that a step shows
  std::unique_ptr<Store> store;
  std::map<SeqId, Rows> twin;
  std::map<SeqId, std::vector<Fed>> fed;
  std::vector<Slot> slots;  // of the last begin
  Rows fresh;               // its rows, in batch order
  bool observed = false;    // whether observe() was called since
  Shortage shortage;        // of the last begin or append that failed
  Row next_row = 1;

 private:
  uint32_t committed(uint32_t s) const {
    return static_cast<uint32_t>(twin.at(slots[s].seq).size());
  }
  void expect_alone(SeqId seq);
};

}  // namespace kvick::kv::test
