#pragma once
// Orders from rank 0 to the other ranks (parallel/follower.h), as bytes.

#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/core/model.h"

namespace kvick::model {

enum class Order : uint8_t {
  kEnd,        // nothing follows
  kMakeStore,  // store, its options; answer: what is wrong, or nothing and its RankRows
  kDropStore,  // store
  kOpen,       // store, sequence, owner, prompt; answer: how many tokens are cached and seen
  kFork,       // store, sequence, the fork's sequence; answer: a Shortage or none
  kClose,      // store, sequence
  kBegin,      // store, slots; answer: a Shortage or none, and the sequences that are lost
  kForward,    // batch, wanted tokens; for the step that was begun last
  kCommit,     // store, rows to keep
  kDrop,       // store
  kShrink,     // store, part of the cached bytes to give back
  kReadRows,   // store, sequence, first, count; answer: whether it succeeded, and the rows
  kPutRows,    // store; rows for the step begun last are dealt; answer: whether it succeeded
  kFirstRow,   // store, sequence; answer: the row
  kHoldRows,   // store, sequence, from
  kKeep,       // store, sequence, position of the checkpoint to keep
  kReadState,  // store, sequence; answer as for kReadRows
  kPutState,   // store, sequence; then the states are dealt; answer as for kPutRows
};

// Writes numbers and lists of numbers, one after another.
class MessageWriter {
 public:
  explicit MessageWriter(Order order) { add(order); }
  MessageWriter() = default;

  template <typename T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  template <typename T>
  void add_list(std::span<const T> values) {
    add(static_cast<uint64_t>(values.size()));
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void add_text(std::string_view text) { add_list(std::span(text.data(), text.size())); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what MessageWriter has written. base::Bug if more is read than the message holds.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  T take() {
    T value;
    const auto from = next(sizeof value);
    if constexpr (std::is_same_v<T, bool>)  // a bool must not have another byte than 0 or 1
      value = from[0] != std::byte{0};
    else
      std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  // Takes the number of items that follow, each of at least one byte.
  uint64_t take_count() {
    const auto count = take<uint64_t>();
    KVICK_CHECK(count <= left_.size(), "{} parts in {} bytes", count, left_.size());
    return count;
  }
  template <typename T>
  std::vector<T> take_list() {
    const auto count = take<uint64_t>();
    KVICK_CHECK(count <= left_.size() / sizeof(T), "a list of {} in {} bytes", count, left_.size());
    std::vector<T> values(count);
    const auto from = next(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  std::string take_text() {
    const std::vector<char> text = take_list<char>();
    return {text.begin(), text.end()};
  }

 private:
  std::span<const std::byte> next(size_t bytes) {
    KVICK_CHECK(bytes <= left_.size(), "{} bytes of a message that has {} left", bytes,
                left_.size());
    const auto from = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return from;
  }
  std::span<const std::byte> left_;
};

void add_batch(MessageWriter& message, const Batch& batch);
// A batch together with the memory that it points to.
struct OwnedBatch {
  std::vector<std::vector<Token>> tokens;
  std::vector<std::vector<int32_t>> parents;
  std::vector<Slot> slots;
  std::vector<bool> skipped;
  Batch batch() const { return {.slots = slots, .skipped = skipped.empty() ? nullptr : &skipped}; }
};
OwnedBatch take_batch(MessageReader& message);

}  // namespace kvick::model
