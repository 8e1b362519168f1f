#include "kernels/linear/matmul.h"

#include <algorithm>

#include "base/check.h"

namespace kvick::kernels {
namespace {

// Bytes of quantised activations per pass over the panels: they stay in half of a 2 MiB L2 while
// each panel is read from memory once per pass.
constexpr size_t kPassBytes = 512 << 10;

// Multiplies the next `tokens` tokens of one tile with one panel, by the largest functions that
// fit. Advances `job` in place: a copy would read the fields just written in wider pieces, and so
// wait for all stores before, which took 6 % of a step of 32 sequences.
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

// Returns the function for several panels at once, or null if panels are computed one by one.
BlockFunction block_function(const PanelFunctions& functions, DType type, uint32_t tokens) {
  const auto i = static_cast<size_t>(type);
  if (tokens >= functions.prompt_least) return functions.prompt[i];
  return tokens >= kBlockLeast && tokens <= kBlockTokens ? functions.block[i] : nullptr;
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
  const uint32_t tokens = a.tokens - first_token;
  const BlockFunction block = block_function(functions, w.dtype, tokens);
  if (block != nullptr) {
    const uint32_t whole = begin + (end - begin) / kPanelsTogether * kPanelsTogether;
    const uint32_t blocks = (tokens + kPromptTokens - 1) / kPromptTokens;
    const uint32_t tiles = ((tokens + blocks - 1) / blocks + kTokenTile - 1) / kTokenTile;
    for (uint32_t first = first_token; first < a.tokens; first += tiles * kTokenTile)
      for (uint32_t p = begin; p < whole; p += kPanelsTogether)
        block({.panel = w.panel(p),
               .panel_bytes = w.panel_bytes,
               .rows = std::min(kPanelsTogether * kPanel, w.rows - p * kPanel),
               .first = first,
               .tokens = std::min(tiles * kTokenTile, a.tokens - first),
               .a = a,
               .y = y + first * y_stride + p * kPanel,
               .y_stride = y_stride});
    begin = whole;
  }
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
