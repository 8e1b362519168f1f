#pragma once

#include "model/families/family.h"

namespace kvick::model {

// Every model there is: an embedding, layers that are lists of blocks, and an output layer.
class Decoder final : public Model {
 public:
  Decoder(Config config, io::ModelFile file) : Model(std::move(config)), file_(std::move(file)) {}

  base::Status<> read(const Family& family, const LoadOptions& options);

  const kv::Slots* trained_slots() const override;
  void forward(const Batch& batch, kv::Step& step, Workspace& workspace,
               std::span<const uint32_t> wanted, float* logits) const override;

 private:
  base::Result<Share> take_share(const LoadOptions& options);
  // All of forward that the ranks do together.
  void compute(const Batch& batch, kv::Step& step, Workspace& workspace,
               std::span<const uint32_t> wanted, float* logits) const;

  io::ModelFile file_;  // holds the rows of tables that are looked up
  Parts parts_;
  std::vector<Layer> layers_;
};

}  // namespace kvick::model
