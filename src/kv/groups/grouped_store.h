#pragma once
// The store of a model whose layers differ: one store per group of equal layers, behind one
// transaction. begin() reserves room in all groups or in none, commit() commits all groups, and a
// prompt resumes after the longest prefix that every group has cached.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kv/contract/kv.h"
#include "kv/strategy/budget.h"
#include "kv/values/layer_spec.h"

namespace kvick::kv {

// Where a layer of the model is kept: layer `layer` in the store of group `group`.
struct LayerPlace {
  static constexpr uint32_t kNowhere = UINT32_MAX;  // group of a layer that does not attend
  uint32_t group = 0, layer = 0;
  bool shared = false;  // it writes no rows; it reads those of another layer, or none
};

class GroupedStore final : public Store, Holdings, Health, RowMover, Buckets, Checkpoints {
 public:
  // layers: of the model. stores: one per group of groups_of(layers), in that order, with the
  // group's layers. budget: shared by all stores, or null.
  GroupedStore(std::span<const LayerSpec> layers, std::vector<std::unique_ptr<Store>> stores,
               std::shared_ptr<Budget> budget = {});

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

  // Rows and checkpoints of a prompt are useful only together. So shrink() evicts the least
  // recently used ones over all groups, instead of emptying the first group.
  uint64_t shrink(uint64_t bytes) override;
  double idle_seconds() const override;
  uint64_t shrink_oldest();
  void make_room(const Batch& batch);
  void keep(SeqId seq, uint32_t at) override;
  bool only_at_end() const override;
  // States lie group after group.
  uint64_t state_bytes() const override;
  void read_state(SeqId seq, std::span<std::byte> out) const override;
  void put_state(SeqId seq, std::span<const std::byte> state) override;
  std::vector<MapEntry> map() const override;
  std::string failure(SeqId seq) const override;
  bool ran_out_of_memory(SeqId seq) const override;
  uint32_t spare_rows(SeqId seq) const override;
  void read_rows(SeqId seq, uint32_t first, uint32_t count,
                 std::span<std::byte> out) const override;
  uint32_t first_row(SeqId seq) const override;
  void hold_rows(SeqId seq, uint32_t from) override;

  std::vector<LayerPlace> places_;  // of the model's layers
  std::vector<std::unique_ptr<Store>> stores_;
  std::shared_ptr<Budget> budget_;
  std::map<SeqId, std::vector<SeqId>> sequences_;
  uint32_t next_id_ = 0;
  const Step* live_ = nullptr;
};

}  // namespace kvick::kv
