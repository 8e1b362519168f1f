#include "model/families/family.h"

namespace kvick::model {

base::Status<> configure_opt(const io::ModelFile&, Config& config) {
  config.learned_positions = true;
  return base::Done{};
}

base::Status<> read_opt_parts(const io::ModelFile& file, WeightReader& weights,
                              const Config& config, Parts& parts) {
  // OPT was trained with two rows for padding before the first position.
  KVICK_TRY(const uint64_t offset, file.get_uint("opt.position_offset", 2));
  const io::Tensor* positions = file.find("position_embd.weight");
  if (positions == nullptr || positions->shape.size() != 2 || offset > 16 ||
      positions->shape[0] < config.context + offset)
    return base::fail(
        "{}: position_embd.weight must have a row for each of {} positions and {} more",
        file.path(), config.context, offset);
  KVICK_TRY(io::Tensor rows, weights.table("position_embd.weight",
                                           static_cast<uint32_t>(positions->shape[0]), config.dim));
  parts.input.positions = std::make_unique<LearnedPositions>(
      LearnedPositions{Embedding(std::move(rows)), static_cast<uint32_t>(offset)});
  return base::Done{};
}

}  // namespace kvick::model
