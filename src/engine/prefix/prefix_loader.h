#pragma once
// Moves rows between sequences and the tiers of the prefix cache: knows which blocks hold a
// sequence's rows, and decides what is worth reading and writing. Tiers are asked in order: what
// the folder has is not read from the store.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/store_set.h"
#include "engine/prefix/prefix_stops.h"
#include "engine/prefix/prefix_tier.h"
#include "engine/reuse/reuse_options.h"

namespace kvick::engine {

// How far a sequence's rows have been offered to the tiers.
struct FiledPrefix {
  uint32_t tokens = 0;  // a multiple of kBlockTokens
  BlockId last;         // id of the last whole block; 0 tokens: prefix_root()
};

// Whose rows a sequence may use: those with the same salt, arithmetic and adapter.
struct PrefixOwner {
  std::string salt;
  // PrefixLoader::arithmetic() of the process that computed the rows; empty: this one's.
  std::string arithmetic;
  bool handed_over = false;  // that process has written the rows to the store, or will
  std::string adapter = {};  // AdapterUse::key
};

// The owner's salt for prefix sharing in memory (kv::Owner). Rows computed with other arithmetic
// are shared only with sequences of the same arithmetic.
uint64_t salt_of(const PrefixOwner& owner);

// A load of rows from tiers into a sequence: look-ups first, then reads.
struct PrefixLoad {
  struct Part {
    PrefixTier* tier = nullptr;
    std::shared_ptr<PrefixRead> read;
    size_t first = 0;    // the index of its first block in `keys`
    bool state = false;  // reads the stop's state, not blocks
  };
  std::vector<BlockKey> keys;  // of the prompt's blocks, from the first token on
  // For a model with states: where the sequence may resume. The states are looked up as well, after
  // the blocks.
  std::vector<PrefixStop> stops;
  std::vector<BlockKey> stop_keys;
  std::optional<size_t> stop;  // index of the stop that is read
  uint32_t tokens = 0;         // tokens that have rows once everything is loaded
  bool handed_over = false;
  std::vector<std::shared_ptr<PrefixLookup>> lookups;  // of each tier
  std::vector<Part> parts;                             // set by plan(), once the look-ups are done
  bool planned = false;
  double began = 0, planned_by = 0, deadline = 0;  // seconds

  uint32_t end_of(size_t key) const;  // tokens of the prompt up to the end of that block
};

// The state of a sequence after append().
struct AppendedRows {
  uint32_t committed = 0;  // tokens
  bool usable = true;      // false: it has rows but lacks their state; it can only be closed
};

// Why no tier keeps rows of this kind of cache, and what happens instead; empty: tiers keep them.
std::string why_no_files(const Engine& engine, const KvOptions& options);

class PrefixLoader {
 public:
  // tiers: null ones are skipped; without any, nothing is read or written. If there is one, the
  // engine must have a fingerprint. seconds: the longest time that a sequence waits for rows.
  // reuse: shifted rows differ from others, so their blocks have other ids.
  PrefixLoader(const Engine& engine, std::vector<std::shared_ptr<PrefixTier>> tiers, double seconds,
               const ReuseOptions& reuse = {});

  // What rows depend on besides model, tokens and kind: the instruction set and the operand type of
  // its float layers, which decide how products round.
  const std::string& arithmetic() const { return arithmetic_; }
  // Whether rows of this kind of cache are kept in tiers at all.
  bool serves(const StoreKind& kind) const;

  FiledPrefix begin(const StoreKind& kind, const PrefixOwner& owner) const;

  // Asks the tiers which blocks of these tokens they have; null: they can have none. Sequences that
  // wait for admission can ask, which takes none of their waiting time.
  std::unique_ptr<PrefixLoad> ask(const StoreKind& kind, const PrefixOwner& owner,
                                  std::span<const Token> tokens) const;
  // Starts the waiting time of a sequence that was admitted with `committed` tokens in memory.
  void start(PrefixLoad& load, uint32_t committed, double seconds_per_token, double now) const;
  // Once the look-ups are done, starts the reads that are faster than computing. Returns true when
  // the sequence need not wait any longer.
  bool advance(PrefixLoad& load, uint32_t committed, double seconds_per_token, double now) const;
  // Waits at most 2 ms for a look-up or a read to finish.
  static void wait(const PrefixLoad& load);
  // Appends the rows that have arrived to a sequence of `committed` tokens, as far as there is
  // room. For a model with states, appends all rows up to the stop or none.
  AppendedRows append(const StoreKind& kind, kv::SeqId seq, std::span<const Token> tokens,
                      uint32_t committed, const PrefixLoad& load) const;
  void give_up(const PrefixLoad& load) const;  // abandons unfinished reads

  // Cost of loading the rows of these tokens, as far as the tiers believe that they have them.
  struct Cost {
    uint32_t tokens = 0;
    double seconds = 0;
  };
  Cost cost(const StoreKind& kind, const PrefixOwner& owner, std::span<const Token> tokens) const;

  // Call it before a sequence computes its first tokens: then the rows of its last, partial block
  // stay until keep() has offered them, even if they leave a window.
  void hold(const StoreKind& kind, kv::SeqId seq, uint32_t committed) const;
  // Offers the tiers all whole blocks that a sequence has committed since `filed`, and updates it.
  // more: it will be called again.
  void keep(const StoreKind& kind, kv::SeqId seq, std::span<const Token> committed,
            FiledPrefix& filed, bool more) const;
  // Offers the state of a sequence of a model that has states, after keep() of the same tokens.
  void keep_state(const StoreKind& kind, kv::SeqId seq, std::span<const Token> committed,
                  const FiledPrefix& filed) const;
  // In a handover, offers the rows after the prompt's last whole block to the process that will
  // answer it: keep() takes whole blocks only.
  void keep_rest(const StoreKind& kind, const PrefixOwner& owner, kv::SeqId seq,
                 std::span<const Token> tokens) const;

 private:
  std::string fingerprint(const StoreKind& kind, const PrefixOwner& owner) const;
  static uint64_t state_bytes(const StoreKind& kind);  // 0: the model has no states
  static bool has_windows(const StoreKind& kind);
  BlockKey key_of(const StoreKind& kind, const PrefixStop& stop) const;
  Cost cost_of_blocks(const StoreKind& kind, std::span<const BlockId> ids) const;
  void plan(PrefixLoad& load, uint32_t committed, double seconds_per_token) const;
  void plan_blocks(PrefixLoad& load, uint32_t committed, double seconds_per_token) const;
  void plan_stop(PrefixLoad& load, uint32_t committed, double seconds_per_token) const;
  void keep_block(const StoreKind& kind, kv::SeqId seq, const BlockId& id, uint32_t first,
                  uint32_t tokens) const;

  std::vector<std::shared_ptr<PrefixTier>> tiers_;
  double seconds_;
  const text::Tokenizer* tokenizer_;
  std::string model_, arithmetic_;
};

}  // namespace kvick::engine
