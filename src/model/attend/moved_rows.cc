#include "model/attend/moved_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace kvick::model {
namespace {

// Returns the cosines, then the sines, of each pair's angle. They lack Rope::magnitude, because the
// keys contain it already.
std::vector<float> turns_of(const Rope& rope, int64_t by) {
  const size_t pairs = rope.frequency.size();
  std::vector<float> turns(2 * pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(by) * rope.frequency[i];
    turns[i] = static_cast<float>(std::cos(angle));
    turns[pairs + i] = static_cast<float>(std::sin(angle));
  }
  return turns;
}

}  // namespace

std::string why_not_moved(const Config& config, const kv::StoreInfo& info) {
  if (config.keeps_states()) return "the model keeps states of all tokens before";
  if (config.learned_positions) return "the model adds a position to every token";
  if (config.norm_behind_rope) return "the model normalises its keys behind their rotation";
  if (!config.layers_alike() || info.groups.size() != 1)
    return "the model's layers keep rows of several kinds";
  const kv::Shape& shape = info.groups.front();
  if (shape.window > 0) return "the model forgets rows that fell out of a window";
  if (shape.aging || kernels::is_static(shape.k_type))
    return "rows of this --kv-type depend on where they stand";
  return "";
}

void move_rows(const Config& config, const kv::Shape& shape, const Move& move,
               std::span<std::byte> rows, const kernels::Table& kernels, base::ThreadPool& pool) {
  KVICK_CHECK_EQ(rows.size(), move.count * shape.token_bytes());
  if (move.by == 0) return;
  std::vector<std::vector<float>> turns;
  for (const Rope& rope : config.ropes) turns.push_back(turns_of(rope, move.by));
  const size_t key = shape.row_bytes(false), region = move.count * (key + shape.row_bytes(true));
  const uint32_t block = shape.hadamard_blocks().k;
  const auto turn = [&](size_t begin, size_t end, unsigned) {
    std::vector<float> head(shape.head_dim);
    for (size_t at = begin; at < end; ++at) {
      const LayerConfig& layer = config.layers[at / shape.kv_heads];
      if (layer.rope == LayerConfig::kNone) continue;
      const Rope& rope = config.ropes[layer.rope];
      std::byte* row = rows.data() + at * region;
      for (uint32_t i = 0; i < move.count; ++i, row += key) {
        kernels::to_f32(shape.k_type, row, head.size(), head.data());
        if (block != 0) kernels.hadamard(head.data(), head.size(), block);
        kernels.rope(head.data(), turns[layer.rope].data(), rope.dims, rope.interleaved);
        if (block != 0) kernels.hadamard(head.data(), head.size(), block);
        kernels.store_row(shape.k_type, head.data(), head.size(), row);
      }
    }
  };
  pool.parallel_for(size_t{shape.layers} * shape.kv_heads, 1, turn);
}

}  // namespace kvick::model
