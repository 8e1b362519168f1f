#include "kernels/linear/matmul.h"

#include <algorithm>

#include "base/check.h"

namespace kvick::kernels {
namespace {

// Bytes of quantised activations that one pass over the panels meets: they stay in half of a 2 MiB
// L2 while each panel is read from memory once per pass.
constexpr size_t kPassBytes = 512 << 10;

// Tokens [t, end) of one tile with one panel, by the largest functions that fit. Moves the job on:
// a copy of what has just been written field by field is read in wider pieces and waits until all
// stores before it are done, which took 6 % of a step of 32 sequences.
void run_tile(const PanelFunction* by_tokens, PanelJob& job, uint32_t tokens) {
  while (tokens > 0) {
    uint32_t n = tokens;
    while (by_tokens[n - 1] == nullptr) --n;
    job.tokens = n;
    by_tokens[n - 1](job);
    job.cold = false;
    if (job.q != nullptr) {
      job.q += size_t{n} * kGroup;
      job.scale += n;
      job.sums += n;
    }
    job.x += size_t{n} * job.inputs;
    job.y += n * job.y_stride;
    tokens -= n;
  }
}

}  // namespace

bool has_prompt_matmul(DType type) { return type != DType::kF32; }
bool has_rounded_matmul(DType type) { return type == DType::kBF16; }

uint32_t pass_tokens(const Matrix& w) {
  const size_t bytes = w.inputs * (pack_format(w.dtype).quantised ? 1 : sizeof(float));
  const size_t tiles = kPassBytes / kTokenTile / std::max<size_t>(1, bytes);
  return static_cast<uint32_t>(std::max<size_t>(1, tiles) * kTokenTile);
}

void run_matmul(const PanelFunctions& functions, const Matrix& w, const Activations& a, float* y,
                size_t y_stride, uint32_t begin, uint32_t end, uint32_t first_token) {
  KVICK_CHECK_EQ(w.inputs, a.inputs);
  KVICK_CHECK(end <= w.panels(), "panel {} of {}", end, w.panels());
  const PanelFunction silent = functions.silent[static_cast<size_t>(w.dtype)];
  const PanelFunction* by_tokens =
      a.tokens == 1 && a.read_ahead == ReadAhead::kNone && silent != nullptr
          ? &silent
          : functions.of[static_cast<size_t>(w.dtype)];
  const bool quantised = pack_format(w.dtype).quantised;
  const BlockFunction block = functions.block[static_cast<size_t>(w.dtype)];
  const uint32_t tokens = a.tokens - first_token;
  if (block != nullptr && tokens >= kBlockLeast && tokens <= kBlockTokens)
    for (; begin + kPanelsTogether <= end; begin += kPanelsTogether)
      block({.panel = w.panel(begin),
             .panel_bytes = w.panel_bytes,
             .rows = std::min(kPanelsTogether * kPanel, w.rows - begin * kPanel),
             .first = first_token,
             .a = a,
             .y = y + first_token * y_stride + begin * kPanel,
             .y_stride = y_stride});
  const uint32_t pass = pass_tokens(w);
  for (uint32_t first = first_token; first < a.tokens; first += std::min(pass, a.tokens - first))
    for (uint32_t p = begin; p < end; ++p)
      for (uint32_t t = first; t < a.tokens && t - first < pass; t += kTokenTile) {
        const TokenPlace place = token_place(a.tokens, t);
        const size_t groups = place.first * (a.inputs / kGroup);
        PanelJob job{.panel = w.panel(p),
                     .inputs = w.inputs,
                     .rows = std::min(kPanel, w.rows - p * kPanel),
                     .tile_tokens = place.tile_tokens,
                     .cold = t == first,
                     .read_ahead = a.read_ahead,
                     .x = a.x + size_t{t} * a.inputs,
                     .y = y + t * y_stride + p * kPanel,
                     .y_stride = y_stride};
        if (quantised) {
          job.q = a.q.data() + groups * kGroup;
          job.scale = a.scale.data() + groups;
          job.sums = a.sums.data() + 2 * groups;
        }
        run_tile(by_tokens, job, place.tile_tokens);
      }
}

}  // namespace kvick::kernels
