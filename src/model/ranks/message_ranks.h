#pragma once
// Ranks that send each other messages, by MPI.

#include <mpi.h>

#include "model/ranks/ranks.h"
#include "model/ranks/waiting.h"

namespace kvick::model {

class MessageRanks final : public Ranks {
 public:
  // all: a communicator of its own.
  MessageRanks(MPI_Comm all, WaitingOptions waiting);

  float* part(size_t count) override;
  const float* sum() override;
  void gather(std::span<const float> own, Take take) override;
  void give_up() override;
  void tell(std::span<const std::byte> message) override;
  std::vector<std::byte> hear() override;
  void answer(std::span<const std::byte> message) override;
  std::vector<std::vector<std::byte>> answers() override;

 private:
  void exchange(size_t count);
  void exchange_slices(size_t count);
  void send_floats(unsigned to, const float* floats, size_t count);
  void receive_floats(unsigned from, float* floats, size_t count, bool exactly = true);
  std::vector<size_t> finish();
  void add_to(float* total, size_t count, const float* part) const;
  void send(unsigned to, std::span<const std::byte> message);
  std::vector<std::byte> receive(unsigned from, int tag, bool idle);

  MPI_Comm all_;
  Waiting waiting_;
  size_t count_ = 0;
  std::vector<float> own_, others_, total_;
  std::vector<MPI_Request> requests_;
  std::vector<std::pair<unsigned, size_t>> expected_;  // of requests_: from whom, how many floats
};

}  // namespace kvick::model
