#pragma once
// Experts of a model that is larger than RAM: the most used ones are in memory, the others in the
// packed file (docs/adr/0044-experts-on-disk.md).
//
// Each mixture requests the experts of its batch through a Turn, which gives them in groups: first
// those that are in memory, then those that it reads from the file, which replace the least used
// ones. Any number of threads may have a turn at the same time. Each batch that needs an expert
// adds 1 to that expert's uses. After every 512 batches of a layer, the uses of its experts are
// halved.

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

// The matrices of an expert. Their data point into the mapped file while the expert is not in
// memory.
using ExpertMatrices = std::array<kernels::Matrix*, 3>;

class ExpertMemory {
 public:
  // bytes: limit for all experts in memory together. The file must outlive this object.
  ExpertMemory(const io::PackedFile& file, uint64_t bytes) : file_(file), limit_(bytes) {}
  ExpertMemory(const ExpertMemory&) = delete;
  ExpertMemory& operator=(const ExpertMemory&) = delete;

  // Adds the experts of a layer, in the order of their numbers; returns the layer's index for Turn.
  // The matrices must outlive this object, and their data may be read only during a turn that was
  // given the expert. used: experts per token.
  uint32_t add_layer(std::span<const ExpertMatrices> experts, uint32_t used);
  // Call it once all layers are added: allocates the memory and fills it with experts, taking one
  // expert of each layer in turn. Errors: the experts of one token in one layer do not fit, or the
  // file cannot be read.
  base::Status<> fill(base::ThreadPool& pool);
  ExpertStats stats() const;

  // One batch's use of some experts of a layer. Each expert is held in memory while it is computed.
  class Turn {
   public:
    // experts: distinct numbers. pool: its threads read the file; others must not use it meanwhile.
    Turn(ExpertMemory& memory, uint32_t layer, std::span<const uint32_t> experts,
         base::ThreadPool& pool);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();
    // Returns the next experts, as ascending indices in `experts`; they stay in memory until the
    // next call. Empty: all were given. Throws std::runtime_error if the file cannot be read.
    std::span<const uint32_t> next();

   private:
    friend class ExpertMemory;
    ExpertMemory& memory_;
    std::vector<uint32_t> experts_;  // indices in the memory's experts_
    std::vector<uint32_t> waiting_;  // indices in experts_ that next() has not given
    std::vector<uint32_t> given_;    // indices that the last next() gave
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
    uint32_t holders = 0;  // turns that hold it
    float uses = 0;
    uint64_t used_at = 0;
  };
  // Experts of equal size share slots. Each size gets a part of the limit proportional to its
  // experts' bytes, so memory never fragments.
  struct Size {
    uint64_t bytes = 0;
    uint32_t experts = 0, used = 0;  // experts of this size in all; those of one token in one layer
    base::Buffer memory;             // [slots][bytes]
    std::vector<uint32_t> free;      // free slots
    std::vector<uint32_t> residents;  // experts in memory, in no order
  };
  struct Layer {
    uint32_t first = 0;    // index of its first expert in experts_
    uint32_t batches = 0;  // batches since the uses were halved
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
  std::condition_variable changed_;  // an expert was read, or an expert was released
  uint64_t now_ = 0;                 // turns so far
  ExpertStats stats_;
};

}  // namespace kvick::model
