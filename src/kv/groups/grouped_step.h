#pragma once
// Internal to GroupedStore: a step that holds one step of each group's store.

#include <memory>
#include <vector>

#include "kv/groups/grouped_store.h"

namespace kvick::kv {

class GroupedStep final : public Step,
                          InputReader,
                          Observer,
                          SlotReader,
                          StateKeeper,
                          RowSink,
                          PieceWriter {
 public:
  GroupedStep(GroupedStore& store, std::vector<std::unique_ptr<Step>> steps, const Batch& batch);
  ~GroupedStep() override { end(); }
  GroupedStep(const GroupedStep&) = delete;
  GroupedStep& operator=(const GroupedStep&) = delete;

  void write(uint32_t layer, const float* k, const float* v) override;
  void view(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void commit(const Kept& kept) override;
  StepFacets facets() override;

 private:
  const LayerPlace& place(uint32_t layer) const;
  Query inside(const Query& query) const;
  void end();

  void write_piece(uint32_t layer, uint32_t first, uint32_t count, const float* k,
                   const float* v) override;
  // The calls below go to the group that has the layer. inputs() and observe() do nothing if that
  // group does not take them.
  void inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) override;
  uint32_t apart(uint32_t layer) const override;
  void observe(const Query& query, const kernels::View& view,
               std::span<const float> probs) override;
  void gates(uint32_t layer, const float* gates) override;
  void carry(uint32_t layer, const float* x) override;
  const float* carried(uint32_t layer, uint32_t slot) const override;
  void read(uint32_t layer, const SlotQueries& queries) override;
  std::span<const std::byte> state(uint32_t layer, uint32_t slot) const override;
  std::span<std::byte> state_after(uint32_t layer, uint32_t slot, uint32_t row) override;
  void put(std::span<const std::byte> rows) override;

  GroupedStore& store_;
  std::vector<std::unique_ptr<Step>> steps_;  // per group
  std::vector<StepFacets> facets_;            // of these steps
  std::vector<uint32_t> fresh_;               // per slot
  std::vector<bool> written_;                 // per layer of the model
};

}  // namespace kvick::kv
