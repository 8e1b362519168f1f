#pragma once
// Processes that run one model together: each a part of every layer (tensor parallelism: Shoeybi et
// al. 2019, section 3; vLLM, section 4.6), or some of the layers (pipeline parallelism: Huang et
// al. 2019, GPipe). Rank 0 leads: it says what is done next, and the others follow
// (parallel/follower.h).

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace kvick::model {

// A rank has ended or does not answer: the others cannot go on without it.
class RankLost : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Another rank could not compute its part of a step. The step is dropped, and the ranks go on.
class RankFailed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One rank's connection to the others. From one thread at a time. Every call that waits for other
// ranks throws RankLost if one is gone or exceeds the time limit that the ranks were made with.
class Ranks {
 public:
  Ranks(unsigned rank, unsigned size) : rank_(rank), size_(size) {}
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }
  bool leads() const { return rank_ == 0; }
  // The format that parts are rounded to when sent; empty: they are not rounded.
  virtual std::string_view rounding() const { return {}; }

  // -- While a step is computed by parts of every layer: all ranks make the same calls in the same
  // order. Each throws RankFailed if another rank has given up. --

  // Buffer for this rank's part of a sum, valid until the next part() or gather().
  virtual float* part(size_t count) = 0;
  // The parts of all ranks added up in the order of ranks, so that all have the same bits whatever
  // else is in the step: [count] of part(), valid as long as it.
  virtual const float* sum() = 0;
  // On rank 0 take(rank, floats) is called with the floats of each other rank; the number of floats
  // may differ from rank to rank, up to kMostGathered.
  static constexpr size_t kMostGathered = size_t{1} << 20;
  using Take = base::FunctionRef<void(unsigned rank, std::span<const float> floats)>;
  virtual void gather(std::span<const float> own, Take take) = 0;
  // Instead of the next sum or gather: this rank cannot compute its part.
  virtual void give_up() = 0;

  // -- While a step is computed by some layers after others: from each rank to the next one, and
  // from the last one to rank 0. --

  // What one rank hands to the next, valid until the receiver's next take_over().
  struct Passed {
    std::span<const float> floats;  // empty: the rank could not compute them
    bool more = false;              // whether more pieces of this step follow
  };
  // Returns once the floats may be written over. It may wait until the next rank takes them.
  virtual void pass_on(Passed passed) = 0;
  // Receives the next piece of the rank before.
  virtual Passed take_over() = 0;

  // -- Between steps. --

  // Rank 0: a message to all others, of at least one byte.
  virtual void tell(std::span<const std::byte> message) = 0;
  // Other ranks: the next message. Waits for as long as it takes, without using a core.
  virtual std::vector<std::byte> hear() = 0;
  // Other ranks: answers the message that was heard.
  virtual void answer(std::span<const std::byte> message) = 0;
  // Rank 0: the answer of each other rank, in rank order. patient: without a time limit.
  virtual std::vector<std::vector<std::byte>> answers(bool patient) = 0;
  std::vector<std::vector<std::byte>> answers() { return answers(false); }
  // Rank 0: sends each other rank its own bytes, in rank order; a part may be empty.
  virtual void deal(std::span<const std::span<const std::byte>> parts) = 0;
  // Other ranks: the bytes that deal() sent to this one.
  virtual std::vector<std::byte> dealt() = 0;

 private:
  const unsigned rank_, size_;
};

}  // namespace kvick::model
