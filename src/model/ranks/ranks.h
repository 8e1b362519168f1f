#pragma once
// Processes that run one model together. Each has a part of every layer (tensor parallelism:
// Shoeybi et al. 2019, section 3; vLLM, section 4.6), or some of the layers (pipeline parallelism:
// Huang et al. 2019, GPipe). Rank 0 leads: it decides what is done next, and the others follow
// (parallel/follower.h).

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace kvick::model {

// A rank has ended or does not answer. The others cannot continue without it.
class RankLost : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Another rank could not compute its part of a step. The step is dropped, and the ranks continue.
class RankFailed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One rank's connection to the others. Only one thread at a time may use it. Every call that waits
// for other ranks throws RankLost if one of them is gone or exceeds the time limit that the ranks
// were made with.
class Ranks {
 public:
  Ranks(unsigned rank, unsigned size) : rank_(rank), size_(size) {}
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }
  bool leads() const { return rank_ == 0; }
  // Rank 0: returns a number that no other store of these ranks has.
  uint32_t next_store() { return stores_++; }
  // The format that parts are rounded to when sent; empty: they are not rounded.
  virtual std::string_view rounding() const { return {}; }

  // -- During a step, with a part of every layer on each rank: all ranks make the same calls in the
  // same order. Each call throws RankFailed if another rank has given up. --

  // Returns the buffer for this rank's part of a sum, valid until the next part() or gather().
  virtual float* part(size_t count) = 0;
  // Returns the sum of all ranks' parts, added in the order of ranks, so that all ranks get the
  // same bits whatever else is in the step: [count] of part(). Valid as long as the buffer of
  // part().
  virtual const float* sum() = 0;
  // Collects floats on rank 0, which calls take(rank, floats) for each other rank. Ranks may send
  // different numbers of floats, up to kMostGathered.
  static constexpr size_t kMostGathered = size_t{1} << 20;
  using Take = base::FunctionRef<void(unsigned rank, std::span<const float> floats)>;
  virtual void gather(std::span<const float> own, Take take) = 0;
  // Call it instead of the next sum or gather if this rank cannot compute its part.
  virtual void give_up() = 0;

  // -- During a step, with some layers on each rank: from each rank to the next one, and from the
  // last rank to rank 0. --

  // What a rank hands to the next one. Valid until the receiver's next take_over().
  struct Passed {
    std::span<const float> floats;  // empty: the rank could not compute them
    bool more = false;              // whether more pieces of this step follow
  };
  // Passes floats to the next rank. Returns once they may be overwritten; may wait until the next
  // rank takes them.
  virtual void pass_on(Passed passed) = 0;
  // Receives the next piece from the previous rank.
  virtual Passed take_over() = 0;

  // -- Between steps. --

  // Rank 0: sends a message of at least one byte to all other ranks.
  virtual void tell(std::span<const std::byte> message) = 0;
  // Other ranks: receive the next message. Waits without a time limit and without using a core.
  virtual std::vector<std::byte> hear() = 0;
  // Other ranks: answer the message that was heard.
  virtual void answer(std::span<const std::byte> message) = 0;
  // Rank 0: receives the answer of each other rank, in rank order. patient: without a time limit.
  virtual std::vector<std::vector<std::byte>> answers(bool patient) = 0;
  std::vector<std::vector<std::byte>> answers() { return answers(false); }
  // Rank 0: sends each other rank its own bytes, in rank order; a part may be empty.
  virtual void deal(std::span<const std::span<const std::byte>> parts) = 0;
  // Other ranks: receive the bytes that deal() sent to this rank.
  virtual std::vector<std::byte> dealt() = 0;

 private:
  const unsigned rank_, size_;
  uint32_t stores_ = 0;
};

}  // namespace kvick::model
