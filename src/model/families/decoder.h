#pragma once

#include "model/families/family.h"
#include "model/matrices/expert_memory.h"

namespace kvick::model {

// The only Model class: an embedding, layers that are lists of blocks, and an output layer.
class Decoder final : public Model {
 public:
  Decoder(Config config, std::shared_ptr<const io::ModelFile> file)
      : Model(std::move(config)), file_(std::move(file)) {}

  // Reads the weights; `place` decides where the matrices are.
  base::Status<> read(const Family& family, const LoadOptions& options, MatrixPlace& place);
  // Keeps the file from which the next read() maps its matrices.
  void hold(io::PackedFile file) { packed_ = std::move(file); }
  // Makes the next read() keep at most `bytes` of experts in memory; the others stay in the packed
  // file.
  void limit_experts(uint64_t bytes) { experts_.emplace(*packed_, bytes); }
  // Memory for packed matrices that lives as long as the model.
  base::Arena& memory() { return memory_; }
  const io::PackedFile* packed() const { return packed_ ? &*packed_ : nullptr; }
  void set_outputs(uint32_t outputs) { outputs_ = outputs; }

  const kv::Slots* trained_slots() const override;
  bool scores_pairs() const override { return parts_.text.scores_pairs(); }
  std::vector<float> head_of(Pooling kind, std::vector<float> pooled) const override;
  std::optional<ExpertStats> expert_stats() const override;
  void forward(const Batch& batch, kv::Step& step, Workspace& workspace,
               std::span<const uint32_t> wanted, float* logits) const override;
  void give_up() const override;
  std::vector<uint64_t> shape_of(std::string_view tensor) const override;
  bool has_states() const override { return !pipeline_; }
  // Defined in drafter.cc.
  base::Result<std::unique_ptr<Model>> read_drafter(const LoadOptions& options) const override;

 private:
  // The arguments of forward, and the tokens' positions.
  struct Forward {
    const Batch& batch;
    kv::Step& step;
    Workspace& workspace;
    std::vector<uint32_t> positions;  // of the batch's tokens
  };
  base::Result<Share> take_share(const LoadOptions& options);
  // Reads only the multi-token-prediction layer of `model`, as a draft model.
  base::Status<> read_behind(const Decoder& model, const LoadOptions& options, MatrixPlace& place);
  // Reads layer `index` of the share and appends it.
  base::Status<> read_layer(uint32_t index, const Share& share, WeightReader& reader);
  // Runs this process's layers over a range of the batch's tokens, then calls `end` with the Rest
  // of the last block.
  using End = base::FunctionRef<void(const Pass& pass, Rest rest)>;
  void run_layers(const Forward& forward, TokenRange range, float* hidden, End end) const;
  // Does forward() for a single process, or for ranks that each have a part of every layer.
  void compute(const Forward& forward, std::span<const uint32_t> wanted, float* logits) const;

  // -- pipeline.cc: ranks have some layers each --
  void compute_stage(const Forward& forward, std::span<const uint32_t> wanted, float* logits) const;
  std::span<const float> pass_pieces(const Forward& forward,
                                     std::span<const uint32_t> wanted) const;
  void run_piece(const Forward& forward, TokenRange range, std::span<const float> before,
                 std::span<const uint32_t> wanted, float* outputs) const;
  bool is_last() const { return ranks_->rank() + 1 == ranks_->size(); }

  std::optional<io::PackedFile>
      packed_;  // declared first, because it must outlive what is mapped from it
  std::optional<ExpertMemory> experts_;
  std::shared_ptr<const io::ModelFile> file_;  // holds the embedding rows that are looked up
  Family family_;                              // the argument of read()
  Parts parts_;
  std::vector<Layer> layers_;
  const kernels::Table* kernels_ = nullptr;
  bool pipeline_ = false;                                       // ranks have some layers each
  kernels::ReadAhead read_ahead_ = kernels::ReadAhead::kTwice;  // chosen when the model was loaded
};

}  // namespace kvick::model
