#pragma once

#include "model/families/family.h"
#include "model/matrices/expert_memory.h"

namespace kvick::model {

// Every model there is: an embedding, layers that are lists of blocks, and an output layer.
class Decoder final : public Model {
 public:
  Decoder(Config config, io::ModelFile file) : Model(std::move(config)), file_(std::move(file)) {}

  // Its matrices are where `place` puts them.
  base::Status<> read(const Family& family, const LoadOptions& options, MatrixPlace& place);
  // The next read's are mapped: the file outlives them.
  void hold(io::PackedFile file) { packed_ = std::move(file); }
  // Of the experts that the next read finds in that file no more than so many bytes are in memory.
  void limit_experts(uint64_t bytes) { experts_.emplace(*packed_, bytes); }
  // Of a decoder that is not needed any more.
  io::ModelFile release_file() { return std::move(file_); }
  // Memory for packed matrices that lives as long as the model.
  base::Arena& memory() { return memory_; }
  const io::PackedFile* packed() const { return packed_ ? &*packed_ : nullptr; }
  void set_outputs(uint32_t outputs) { outputs_ = outputs; }

  const kv::Slots* trained_slots() const override;
  std::optional<ExpertStats> expert_stats() const override;
  void forward(const Batch& batch, kv::Step& step, Workspace& workspace,
               std::span<const uint32_t> wanted, float* logits) const override;
  void give_up() const override;

 private:
  // What forward takes.
  struct Forward {
    const Batch& batch;
    kv::Step& step;
    Workspace& workspace;
    std::vector<uint32_t> positions;  // of the batch's tokens
  };
  base::Result<Share> take_share(const LoadOptions& options);
  // The layers of this process, over some of the batch's tokens; then `end` with the last block's
  // rest.
  using End = base::FunctionRef<void(const Pass& pass, Rest rest)>;
  void run_layers(const Forward& forward, TokenRange range, float* hidden, End end) const;
  // All of forward that ranks do together, each a part of every layer; or that one process does.
  void compute(const Forward& forward, std::span<const uint32_t> wanted, float* logits) const;

  // -- pipeline.cc: this process has some of the layers --
  void compute_stage(const Forward& forward, std::span<const uint32_t> wanted, float* logits) const;
  std::span<const float> pass_pieces(const Forward& forward,
                                     std::span<const uint32_t> wanted) const;
  void run_piece(const Forward& forward, TokenRange range, std::span<const float> before,
                 std::span<const uint32_t> wanted, float* outputs) const;
  bool is_last() const { return ranks_->rank() + 1 == ranks_->size(); }

  std::optional<io::PackedFile> packed_;  // before what is mapped from it
  std::optional<ExpertMemory> experts_;
  io::ModelFile file_;  // holds the rows of tables that are looked up
  Parts parts_;
  std::vector<Layer> layers_;
  bool pipeline_ = false;                                       // ranks have some layers each
  kernels::ReadAhead read_ahead_ = kernels::ReadAhead::kTwice;  // found when it was loaded
};

}  // namespace kvick::model
