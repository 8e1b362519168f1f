#pragma once
// A rank's message to the next one (Ranks::Passed), as bytes.

#include <cstring>
#include <vector>

#include "base/check.h"
#include "model/ranks/ranks.h"

namespace kvick::model {

class PassedBytes {
 public:
  // Returns the message; valid until the next call.
  std::span<const std::byte> bytes_of(Ranks::Passed passed) {
    const Head head = {.bytes = sizeof(Head) + passed.floats.size_bytes(), .more = passed.more};
    sent_.resize(head.bytes);
    std::memcpy(sent_.data(), &head, sizeof head);
    if (!passed.floats.empty())
      std::memcpy(sent_.data() + sizeof head, passed.floats.data(), passed.floats.size_bytes());
    return sent_;
  }
  // Returns the bytes of the whole message, given its first bytes.
  static uint64_t count_of(std::span<const std::byte> bytes) { return head_of(bytes).bytes; }
  // Returns Passed::more, given the message's first bytes.
  static bool more_of(std::span<const std::byte> bytes) { return head_of(bytes).more != 0; }
  // Reads a message of bytes_of. The floats are valid until the next call.
  Ranks::Passed take(std::vector<std::byte> bytes) {
    taken_ = std::move(bytes);
    const Head head = head_of(taken_);
    KVICK_CHECK_EQ(head.bytes, taken_.size());
    return {.floats = {reinterpret_cast<const float*>(taken_.data() + sizeof head),
                       (taken_.size() - sizeof head) / sizeof(float)},
            .more = head.more != 0};
  }

 private:
  struct Head {
    uint64_t bytes, more;
  };
  static Head head_of(std::span<const std::byte> bytes) {
    Head head;
    KVICK_CHECK(bytes.size() >= sizeof head, "{} bytes were passed on", bytes.size());
    std::memcpy(&head, bytes.data(), sizeof head);
    return head;
  }

  std::vector<std::byte> sent_, taken_;
};

}  // namespace kvick::model
