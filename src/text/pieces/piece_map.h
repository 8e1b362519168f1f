#pragma once
// Maps byte strings to token ids: a flat hash table that is filled once and then only read.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::text {

using Token = int32_t;

class PieceMap {
 public:
  static constexpr int32_t kNone = -1;

  explicit PieceMap(size_t most_pieces) {
    size_t slots = 16;
    while (slots < 2 * most_pieces) slots *= 2;
    slots_.resize(slots);
  }

  // Returns false if the piece is there already; its first id stays.
  bool insert(std::string_view piece, int32_t id) {
    Slot& slot = slots_[slot_of(piece)];
    if (slot.id != kNone) return false;
    slot = {hash(piece), id, static_cast<uint32_t>(piece.size()), pool_.size()};
    pool_ += piece;
    longest_ = std::max(longest_, piece.size());
    return true;
  }

  int32_t find(std::string_view piece) const {
    return piece.size() > longest_ ? kNone : slots_[slot_of(piece)].id;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNone;
    uint32_t bytes = 0;
    size_t start = 0;  // in pool_
  };

  static uint32_t hash(std::string_view piece) {
    return static_cast<uint32_t>(std::hash<std::string_view>{}(piece));
  }
  // Returns the slot of the piece or, if it is absent, the free slot where it belongs. At most half
  // of the slots are used.
  size_t slot_of(std::string_view piece) const {
    const uint32_t tag = hash(piece);
    for (size_t i = tag;; ++i) {
      const Slot& slot = slots_[i &= slots_.size() - 1];
      if (slot.id == kNone) return i;
      if (slot.tag == tag && std::string_view(pool_).substr(slot.start, slot.bytes) == piece)
        return i;
    }
  }

  std::vector<Slot> slots_;
  std::string pool_;
  size_t longest_ = 0;
};

}  // namespace kvick::text
