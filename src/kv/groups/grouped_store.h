#pragma once
// A model whose layers are not alike: one store per group of layers that are, behind one
// transaction. begin() takes room in all groups or in none, commit() is one act over all, and a
// prompt goes on from the token from which every group can.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kv/contract/kv.h"
#include "kv/values/layer_spec.h"

namespace kvick::kv {

// Where a layer of the model is: layer `layer` of the store of a group.
struct LayerPlace {
  uint32_t group = 0, layer = 0;
  bool shared = false;  // it reads the rows of another layer, and writes none
};

class GroupedStore final : public Store, Holdings, Health, RowMover, Buckets {
 public:
  // layers: of the model; stores: of groups_of(layers), in that order, each with as many layers.
  GroupedStore(std::span<const LayerSpec> layers, std::vector<std::unique_ptr<Store>> stores);

  Opened open(std::span<const Token> prompt, const Owner& owner) override;
  base::Result<SeqId, Shortage> fork(SeqId seq) override;
  void close(SeqId seq) override;
  base::Result<std::unique_ptr<Step>, Shortage> begin(const Batch& batch) override;
  uint32_t length(SeqId seq) const override;
  Usage usage() const override;
  StoreFacets facets() override;

 private:
  friend class GroupedStep;

  const std::vector<SeqId>& members(SeqId seq) const;  // base::Bug if it is not open
  SeqId add(std::vector<SeqId> members);
  void check_idle(std::string_view call) const;
  void close_all(std::span<const SeqId> members);

  uint64_t shrink(uint64_t bytes) override;
  std::vector<MapEntry> map() const override;
  std::string failure(SeqId seq) const override;
  bool ran_out_of_memory(SeqId seq) const override;
  uint32_t spare_rows(SeqId seq) const override;
  // Group after group.
  void read_rows(SeqId seq, uint32_t first, uint32_t count,
                 std::span<std::byte> out) const override;

  std::vector<LayerPlace> places_;  // of the model's layers
  std::vector<std::unique_ptr<Store>> stores_;
  std::map<SeqId, std::vector<SeqId>> sequences_;
  uint32_t next_id_ = 0;
  const Step* live_ = nullptr;
};

}  // namespace kvick::kv
