#pragma once
// Ranks that exchange messages by MPI.

#include <mpi.h>

#include "model/ranks/passed.h"
#include "model/ranks/ranks.h"
#include "model/ranks/waiting.h"
#include "model/ranks/wire_format.h"

namespace kvick::model {

class MessageRanks final : public Ranks {
 public:
  // all: a communicator that nothing else uses. Parts and sums are sent in `format`. The sum is
  // that of the rounded parts, and all ranks still get the same bits.
  MessageRanks(MPI_Comm all, WaitingOptions waiting, WireFormat format);

  std::string_view rounding() const override {
    return format_ == WireFormat::kF32 ? std::string_view() : wire_name(format_);
  }
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
  template <typename Word>
  void send_words(unsigned to, const Word* words, size_t count);
  template <typename Word>
  void receive_words(unsigned from, Word* words, size_t count, bool exactly = true);
  std::vector<size_t> finish();
  void exchange(const std::byte* own, std::byte* others);
  void exchange_slices(const std::byte* own, std::byte* others);
  // Returns where rank r's slice of the count_ floats begins.
  size_t slice(unsigned r) const;
  void send(unsigned to, std::span<const std::byte> message);
  void resize(std::vector<std::byte>& bytes, size_t size, unsigned from) const;
  std::vector<std::byte> receive(unsigned from, int tag, bool idle);
  void send_bytes(unsigned to, std::span<const std::byte> bytes, bool waits);

  MPI_Comm all_;
  Waiting waiting_;
  const WireFormat format_;
  size_t count_ = 0;  // the parameter of part()
  std::vector<float> own_, total_;
  std::vector<std::byte> wire_;  // own_ in format_
  std::vector<std::byte> room_;  // receives the other ranks' parts
  PassedBytes passed_;
  std::vector<MPI_Request> requests_;
  std::vector<std::pair<unsigned, size_t>>
      expected_;  // per request: rank, and bytes (or kSend, kAny)
};

}  // namespace kvick::model
