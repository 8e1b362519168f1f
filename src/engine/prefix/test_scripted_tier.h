#pragma once

#include <map>

#include "engine/prefix/prefix_tier.h"

namespace kvick::engine::test {

// A tier that a test can make slow to answer, slow to read, or only seem slow.
class ScriptedTier final : public PrefixTier {
 public:
  size_t known(std::span<const BlockId> ids) const override {
    size_t n = 0;
    while (n < ids.size() && blocks.contains(ids[n])) ++n;
    return n;
  }
  std::shared_ptr<PrefixLookup> look_up(std::vector<BlockId> ids, double seconds) override {
    patience = seconds;
    auto lookup = std::make_shared<PrefixLookup>(std::move(ids));
    for (size_t i = 0; i < lookup->ids.size(); ++i)
      lookup->has[i] = blocks.contains(lookup->ids[i]) ? 1 : 0;
    if (answers) lookup->finish();
    return lookup;
  }
  std::shared_ptr<PrefixRead> read(std::vector<BlockKey> keys) override {
    auto read = std::make_shared<PrefixRead>(std::move(keys));
    for (size_t i = 0; i < read->keys.size() && i < most_read; ++i) {
      read->add(blocks.at(read->keys[i].id));
      ++reads;
    }
    if (read->keys.size() <= most_read) read->finish();
    return read;
  }
  void abandon(PrefixRead& read) override { abandoned += read.abandon() ? 1 : 0; }
  void keep(const BlockKey& key, MakeRows make_rows) override {
    if (!blocks.contains(key.id)) blocks[key.id] = encode_block(key.id, *make_rows());
  }
  double seconds_per_byte() const override { return rate; }
  TierCounts counts() const override { return {.in_use = true, .connected = connected}; }
  void flush() override {}

  std::map<BlockId, std::string> blocks;
  bool answers = true;          // whether look-ups finish
  size_t most_read = SIZE_MAX;  // blocks that a read delivers; the others never arrive
  double rate = 0;              // seconds per byte
  bool connected = true;
  size_t reads = 0, abandoned = 0;  // blocks read, and reads abandoned
  double patience = 0;              // seconds that the last look-up may take
};

}  // namespace kvick::engine::test
