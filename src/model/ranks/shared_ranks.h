#pragma once
// Ranks on one machine: they share a region of memory, in which sums need no copies. Nothing here
// depends on how the region was made, so threads of one process can be ranks too.

#include <atomic>
#include <vector>

#include "model/ranks/passed.h"
#include "model/ranks/ranks.h"
#include "model/ranks/waiting.h"

namespace kvick::model {

class SharedRanks final : public Ranks {
 public:
  // Bytes of the region that `ranks` ranks share. Only large steps touch most of it.
  static size_t region_bytes(unsigned ranks);
  // region: region_bytes(size), aligned to 64 bytes, all zeros before the first rank is made. It
  // must outlive all ranks.
  SharedRanks(std::byte* region, unsigned rank, unsigned size, WaitingOptions waiting);

  float* part(size_t count) override;
  const float* sum() override;
  void gather(std::span<const float> own, Take take) override;
  void give_up() override;
  void pass_on(Passed passed) override;
  Passed take_over() override;
  void tell(std::span<const std::byte> message) override;
  std::vector<std::byte> hear() override;
  void answer(std::span<const std::byte> message) override;
  using Ranks::answers;
  std::vector<std::vector<std::byte>> answers(bool patient) override;
  void deal(std::span<const std::span<const std::byte>> parts) override;
  std::vector<std::byte> dealt() override;

 private:
  // A message in transit from one rank, in pieces.
  struct alignas(64) Channel {
    std::atomic<uint64_t> pieces{0};  // pieces written so far
    uint64_t bytes = 0;               // of the whole message
    static constexpr size_t kPiece = 64 * 1024 - 128;
    std::byte piece[kPiece];
  };
  struct alignas(64) Cell {              // shared state of one rank
    std::atomic<uint64_t> arrived{0};    // number of meetings reached
    std::atomic<uint64_t> gave_up[2]{};  // the last odd and even meeting at which it gave up
    std::atomic<uint64_t> heard{0};      // pieces of rank 0's channel that this rank has read
    std::atomic<uint64_t> taken{0};      // pieces of this rank's channel that rank 0 has read
    std::atomic<uint64_t> passed{
        0};                      // pieces of the previous rank's channel that this rank has read
    uint64_t given[2] = {0, 0};  // floats of a gather, in this exchange and the previous one
  };

  Cell& cell(unsigned rank) const;
  Channel& channel(unsigned rank) const;
  Channel& channel_to_next(unsigned rank) const { return channel(size() + rank); }
  float* floats(unsigned rank) const;  // its part in the current exchange
  void begin_exchange();
  void arrive();
  void meet();
  void await(unsigned rank) const;
  void sum_piece(size_t count);
  void send(Channel& own, std::span<const std::byte> message,
            base::FunctionRef<bool(uint64_t pieces)> read);
  void receive_pieces(const Channel& other, std::atomic<uint64_t>& read, bool idle,
                      base::FunctionRef<void(uint64_t bytes, std::span<const std::byte>)> take);
  std::vector<std::byte> receive(const Channel& other, std::atomic<uint64_t>& read, bool idle);

  std::byte* const region_;
  Waiting waiting_;
  uint64_t meetings_ = 0, exchanges_ = 0;
  bool begun_ = false;        // an exchange has begun, and this rank has not arrived yet
  size_t count_ = 0;          // the parameter of part()
  std::vector<float> large_;  // a part that is too large for the region
  std::vector<float> total_;
  PassedBytes passed_;
};

}  // namespace kvick::model
