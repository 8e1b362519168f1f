#pragma once
// Between sequences and the files of the prefix cache: which files hold a sequence's rows, what is
// worth reading, and what is worth writing.

#include <memory>
#include <span>
#include <string>

#include "engine/core/store_set.h"
#include "engine/prefix/prefix_files.h"

namespace kvick::engine {

// How far a sequence's rows have been offered to the files.
struct FiledPrefix {
  uint32_t tokens = 0;  // a multiple of kFileTokens
  FileId last;          // the file of the last of them, or what stands before the first
};

// Rows on their way from files to a sequence.
struct PrefixLoad {
  std::shared_ptr<PrefixFiles::Read> read;
  uint32_t first_file = 0;
  double began = 0, deadline = 0;  // seconds
};

// Why files hold no rows of such a store and what happens instead, as a sentence; empty: they do.
std::string why_no_files(const Engine& engine, const KvOptions& options);

class PrefixLoader {
 public:
  // files: null for a service without; then nothing is read or written. With files the engine has a
  // fingerprint. seconds: what a sequence waits for files at most.
  PrefixLoader(const Engine& engine, std::shared_ptr<PrefixFiles> files, double seconds);

  FiledPrefix begin(const StoreKind& kind, std::string_view salt) const;

  // What reading costs of the files that hold tokens [cached, tokens.size()), as far as they go
  // without a gap: bytes, seconds (0: not known yet) and the tokens that it brings.
  struct PrefixOffer {
    std::vector<FileId> ids;
    uint32_t first_file = 0, tokens = 0;
    uint64_t bytes = 0;
    double seconds = 0;
  };
  PrefixOffer offer(const StoreKind& kind, std::string_view salt, std::span<const Token> tokens,
                    uint32_t cached) const;
  // Reads them, if that is faster than to compute the tokens anew; null if not.
  std::unique_ptr<PrefixLoad> load(const StoreKind& kind, PrefixOffer offer, double compute_seconds,
                                   double now) const;
  // Appends what has come to a sequence of `committed` tokens; how many it has then. Stops where
  // there is no room.
  uint32_t append(const StoreKind& kind, kv::SeqId seq, std::span<const Token> tokens,
                  uint32_t committed, const PrefixLoad& loading) const;
  void give_up(const PrefixLoad& loading) const { files_->abandon(*loading.read); }
  // Waits a little for something to come.
  void wait(const PrefixLoad& loading) const { files_->wait(*loading.read, 0.002); }

  // Offers the files all that a sequence has committed since `filed`.
  void keep(const StoreKind& kind, kv::SeqId seq, std::span<const Token> committed,
            FiledPrefix& filed) const;
  FileCounts counts() const { return files_ ? files_->counts() : FileCounts{}; }

 private:
  bool serves(const StoreKind& kind) const;
  std::string fingerprint(const StoreKind& kind) const;

  std::shared_ptr<PrefixFiles> files_;
  double seconds_;
  std::string model_;  // what rows depend on but for the kind
};

}  // namespace kvick::engine
