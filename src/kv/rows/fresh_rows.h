#pragma once
// Writes the fresh rows of a batch in the store's element types, wherever its strategy keeps them.

#include <algorithm>

#include "base/check.h"
#include "kv/strategy/checked_store.h"
#include "kv/strategy/ranges.h"

namespace kvick::kv {

// The arguments of Step::write or PieceWriter::write_piece: rows [first, end) of the batch's fresh
// rows; k and v point to row `first`.
struct LayerInput {
  uint32_t layer;
  const float *k, *v;
  uint64_t first = 0, end = UINT64_MAX;
};

// Writes one row of a head. inverse: 1 / the scale of static codes.
inline void write_row(const Setup& setup, bool is_v, float inverse, const float* in,
                      std::byte* out) {
  const kernels::DType type = is_v ? setup.shape.v_type : setup.shape.k_type;
  const uint32_t dims = setup.shape.kept_dim(is_v);
  if (!kernels::is_static(type)) return setup.compute.store_row(type, in, dims, out);
  constexpr uint32_t kMost = 256;
  float scaled[kMost];
  for (uint32_t begin = 0; begin < dims; begin += kMost) {
    const uint32_t n = std::min(kMost, dims - begin);
    for (uint32_t i = 0; i < n; ++i) scaled[i] = in[begin + i] * inverse;
    setup.compute.store_row(type, scaled, n, out + kernels::dtype_bytes(type, begin));
  }
}

// Writes the fresh rows that `input` holds. at(slot, head, is_v, i) returns where fresh row i of a
// slot goes; the threads of the setup's pool call it. A type that quantises rows in groups needs
// whole groups in every slot.
template <class At>
void write_fresh_rows(const Setup& setup, std::span<const StepSlot> step_slots,
                      const LayerInput& input, const At& at) {
  const Shape& shape = setup.shape;
  for (const kernels::DType type : {shape.k_type, shape.v_type})
    for (const StepSlot& step_slot : step_slots)
      KVICK_CHECK(step_slot.fresh % kernels::rows_together(type) == 0, "{} rows of type {}",
                  step_slot.fresh, kernels::dtype_info(type).name);
  // Number of floats of one token's keys or values, over all heads.
  const auto token_floats = [&](bool is_v) { return size_t{shape.kv_heads} * shape.dim(is_v); };
  const auto kept = [&](bool is_v) { return shape.kept_dim(is_v) > 0; };
  // This call writes the slot's rows [begin_of, end_of).
  const auto begin_of = [&](const StepSlot& of) -> uint64_t {
    return std::clamp(input.first, of.first, of.first + of.fresh) - of.first;
  };
  const auto end_of = [&](const StepSlot& of) -> uint64_t {
    return std::clamp(input.end, of.first, of.first + of.fresh) - of.first;
  };
  // Prefetches the first row: a sequence's next row is seldom in the processor's cache, and without
  // this the writes wait for its cache lines one after the other.
  const auto ask = [&](size_t region) {
    const StepSlot& step_slot = step_slots[region / shape.kv_heads];
    if (begin_of(step_slot) == end_of(step_slot)) return;
    for (const bool is_v : {false, true}) {
      if (!kept(is_v)) continue;
      const std::byte* const row = at(static_cast<uint32_t>(region / shape.kv_heads),
                                      static_cast<uint32_t>(region % shape.kv_heads), is_v,
                                      static_cast<uint32_t>(begin_of(step_slot)));
      for (size_t line = 0; line < shape.row_bytes(is_v); line += 64)
        __builtin_prefetch(row + line, 1);
    }
  };
  constexpr size_t kAhead = 8;  // regions
  const auto write_all = [&](size_t begin, size_t end, unsigned) {
    for (size_t region = begin; region < std::min(end, begin + kAhead); ++region) ask(region);
    for (size_t region = begin; region < end; ++region) {
      if (region + kAhead < end) ask(region + kAhead);
      const auto slot = static_cast<uint32_t>(region / shape.kv_heads);
      const auto head = static_cast<uint32_t>(region % shape.kv_heads);
      const StepSlot& step_slot = step_slots[slot];
      const auto from = static_cast<uint32_t>(begin_of(step_slot));
      const auto until = static_cast<uint32_t>(end_of(step_slot));
      for (const bool is_v : {false, true}) {
        if (!kept(is_v)) continue;
        const size_t token = token_floats(is_v);
        const kernels::DType type = is_v ? shape.v_type : shape.k_type;
        // Rows of the input that precede row `from`: rows of earlier slots.
        const size_t before =
            step_slot.first + from - std::min(input.first, step_slot.first + from);
        const float* const in =
            (is_v ? input.v : input.k) + before * token + size_t{head} * shape.dim(is_v);
        if (kernels::rows_together(type) == 1) {
          const float inverse = inverse_scale(static_scale(setup, input.layer, head, is_v));
          for (uint32_t i = from; i < until; ++i)
            write_row(setup, is_v, inverse, in + (i - from) * token, at(slot, head, is_v, i));
          continue;
        }
        std::byte* rows[kernels::kGroupRows];
        for (uint32_t i = 0; i < step_slot.fresh; i += kernels::kGroupRows) {
          for (uint32_t r = 0; r < kernels::kGroupRows; ++r) rows[r] = at(slot, head, is_v, i + r);
          setup.compute.store_group(type, in + i * token, token, shape.dim(is_v), rows);
        }
      }
    }
  };
  const size_t regions = step_slots.size() * shape.kv_heads;
  if (setup.compute.pool == nullptr) return write_all(0, regions, 0);
  // Rows in one piece of work, keys and values counted separately: writing these takes no longer
  // than starting a parallel region.
  constexpr uint64_t kRows = 16;
  const uint64_t rows_each =
      (step_slots.back().first + step_slots.back().fresh) / step_slots.size();
  setup.compute.pool->parallel_for(regions, std::max<uint64_t>(1, kRows / (2 * rows_each)),
                                   write_all);
}

}  // namespace kvick::kv
