#pragma once
// Experts of a model that is larger than the memory: those used most are in memory, the others in
// the packed file (docs/adr/0044-experts-on-disk.md).
//
// Each mixture of experts asks for the experts of its batch by a Turn, which gives them some at a
// time: first those that are in memory, then those that it reads, in place of the ones used least.
// Any number of threads may have a turn at once. Each batch that needs an expert adds 1 to that
// expert's count of uses; after every 512 batches the counts of a layer's experts are halved.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "io/packed/packed_file.h"
#include "kernels/formats/matrix.h"
#include "model/matrices/expert_stats.h"

namespace kvick::model {

// The matrices of an expert, whose data are in the mapped file until they are in memory.
using ExpertMatrices = std::array<kernels::Matrix*, 3>;

class ExpertMemory {
 public:
  // bytes: the most that experts in memory take together. The file outlives this.
  ExpertMemory(const io::PackedFile& file, uint64_t bytes) : file_(file), limit_(bytes) {}
  ExpertMemory(const ExpertMemory&) = delete;
  ExpertMemory& operator=(const ExpertMemory&) = delete;

  // The experts of a layer, by number; returns what Turn calls the layer. The matrices outlive
  // this, and nobody else reads or writes their data but within a turn that has them. used: the
  // experts of a token.
  uint32_t add_layer(std::span<const ExpertMatrices> experts, uint32_t used);
  // Once all layers are there: takes the memory and fills it, an expert of each layer after the
  // other. Errors: not even one token's experts of a layer fit, or the file cannot be read.
  base::Status<> fill(base::ThreadPool& pool);
  ExpertStats stats() const;

  // Some experts of a layer, each for as long as it is computed.
  class Turn {
   public:
    // experts: numbers, each once. pool: reads; nobody else may use it meanwhile.
    Turn(ExpertMemory& memory, uint32_t layer, std::span<const uint32_t> experts,
         base::ThreadPool& pool);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();
    // Those that are in memory now and stay there until the next call: indices in `experts`,
    // ascending. Empty: all have been. Throws std::runtime_error if the file cannot be read.
    std::span<const uint32_t> next();

   private:
    friend class ExpertMemory;
    ExpertMemory& memory_;
    std::vector<uint32_t> experts_;  // numbers of experts_ of the memory
    std::vector<uint32_t> waiting_;  // indices that next() has not given
    std::vector<uint32_t> given_;    // by the last next()
    base::ThreadPool& pool_;
  };

 private:
  enum class State : uint8_t { kOnDisk, kComing, kHere };
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Expert {
    ExpertMatrices matrices;
    std::array<std::span<const std::byte>, 3> in_file;
    uint32_t size = 0;  // index in sizes_
    uint32_t slot = kNone;
    State state = State::kOnDisk;
    uint32_t holders = 0;  // turns that compute it
    float uses = 0;
    uint64_t used_at = 0;
  };
  // Experts that take the same bytes share slots: a part of the limit as large as their part of all
  // experts, so that memory is never in pieces that fit none.
  struct Size {
    uint64_t bytes = 0;
    uint32_t experts = 0, used = 0;   // of them: in all, and of one token in one layer
    base::Buffer memory;              // [slots][bytes]
    std::vector<uint32_t> free;       // slots
    std::vector<uint32_t> residents;  // experts, in no order
  };
  struct Layer {
    uint32_t first = 0;    // of experts_
    uint32_t batches = 0;  // since its uses were halved
    uint32_t experts = 0;
  };

  uint32_t size_of(uint64_t bytes);
  base::Status<> make_slots();
  void count_uses(uint32_t layer, const Turn& turn);
  void let_go(Turn& turn);
  bool take_here(Turn& turn);
  std::vector<uint32_t> take_slots(Turn& turn);
  uint32_t free_slot(Size& size);
  void begin_reading(const Turn& turn) const;
  base::Status<> read(std::span<const uint32_t> experts, base::ThreadPool& pool) const;
  void put(std::span<const uint32_t> experts, bool read);

  const io::PackedFile& file_;
  const uint64_t limit_;
  std::vector<Expert> experts_;
  std::vector<Layer> layers_;
  std::vector<Size> sizes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // an expert came, or one may go
  uint64_t now_ = 0;                 // turns so far
  ExpertStats stats_;
};

}  // namespace kvick::model
