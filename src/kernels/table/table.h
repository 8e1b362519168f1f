#pragma once
// One table of functions per instruction set, chosen once at start. Every entry has a scalar twin
// with the same name; the tests compare each with it. All pointers may be unaligned unless said;
// sizes are in elements. Larger than 150 lines because the table is one contract.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/memory.h"
#include "kernels/formats/matrix.h"
#include "kernels/table/delta_run.h"

namespace kvick::kernels {

// Rows stored by column: the first elements of all rows, then their second elements, and so on.
struct Columns {
  size_t rows = 0, stride = 0;  // stride: elements from one column to the next, at least rows
  size_t dims = 0;              // columns
};

inline constexpr uint32_t kMaxQuadDims = 640;
inline constexpr uint32_t kQuadGroup = 32;  // dimensions that share a scale, from 0 on

// Rows of int8 codes in blocks, for products of four dimensions at a time: a block is
// [dims / 4][block_rows][4].
struct Quads {
  const std::byte* const* blocks = nullptr;
  uint32_t block_rows = 0;  // a multiple of 16
  uint32_t dims = 0;        // a multiple of 4, at most kMaxQuadDims
  // Scales: a row's codes of each kQuadGroup dimensions are multiplied by a float. They lie in each
  // block, `scales` bytes from its start: [groups][block_rows]. 0: there are none.
  size_t scales = 0;
  std::span<const Range> ranges;  // the rows to score, none of them empty
};

inline constexpr size_t kWeightBlock = 64;  // tokens: see Table::weigh_tokens

struct Table {
  base::Isa isa;

  // -- linear layers --
  // Fills q, scale and sums of these tokens and groups of kGroup inputs from a.x. Threads that
  // share a tile of tokens should take different groups, because tokens of a tile share cache
  // lines.
  void (*quantise)(Activations& a, Range tokens, Range groups);
  // y[t * y_stride + row] = sum_i W[row][i] * x[t][i] for all tokens of `a` and the rows of panels
  // [begin, end). A token's result does not depend on which other tokens are in the batch, bit for
  // bit.
  void (*matmul)(const Matrix& w, const Activations& a, float* y, size_t y_stride, uint32_t begin,
                 uint32_t end);
  // matmul for BF16 matrices (has_rounded_matmul) and inputs rounded to bfloat16, with which
  // round_inputs fills a.rounded. Twice as fast where the processor multiplies bfloat16 at full
  // rate. A token's bits depend on its own inputs alone, as above. Both are null if the instruction
  // set has no such products, or in tables other than rounding_table().
  void (*round_inputs)(Activations& a, Range tokens, Range groups);
  void (*matmul_rounded)(const Matrix& w, const Activations& a, float* y, size_t y_stride,
                         uint32_t begin, uint32_t end);
  // Linear layers for prompts, about twice as fast for many tokens: inputs and weights are rounded
  // to bfloat16, and products summed in float32. A token's bits depend on its own inputs alone, as
  // above. round_tile fills 16 tokens of a.values from a.x, with zeros past the last. All are null
  // if the instruction set has no such products.
  void (*round_tile)(PromptActivations& a, uint32_t tile);
  void (*matmul_prompt)(const Matrix& w, const PromptActivations& a, float* y, size_t y_stride,
                        uint32_t begin, uint32_t end);
  // y.values = bfloat16(silu_mul(gate * a, up * a)), the next matrix's inputs, for the rows of
  // panels [begin, end). gate and up have the same type and shape; their rows are a multiple of 32.
  void (*matmul_prompt_gated)(const Matrix& gate, const Matrix& up, const PromptActivations& a,
                              PromptActivations& y, uint32_t begin, uint32_t end);

  // -- element-wise, n elements of one token --
  void (*rms_norm)(const float* x, const float* weight, size_t n, float eps, float* y);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, size_t n, float eps,
                     float* y);
  void (*silu_mul)(const float* gate, const float* up, size_t n,
                   float* y);  // y = gate/(1+exp(-gate)) * up
  void (*relu)(float* x, size_t n);
  void (*add)(float* x, const float* y, size_t n);            // x += y
  void (*axpy)(float* x, float a, const float* y, size_t n);  // x += a * y
  float (*dot)(const float* x, const float* y, size_t n);
  // Rotary embedding of one head in place. cos_sin: [dims/2] cosines, then [dims/2] sines. Pair i
  // is elements (2i, 2i+1) if interleaved (GGUF's llama), else (i, i + dims/2) (Hugging Face,
  // "neox").
  void (*rope)(float* head, const float* cos_sin, size_t dims, bool interleaved);

  // -- attention --
  // Computes each query's softmax state over the rows of one chunk (attention.h) that it sees. A
  // query that sees none gets max = -inf, sum = 0, acc = 0. probs, if not null: unnormalised
  // exp(logit - max) per query and place of the chunk, [tokens][group][kChunkRows].
  void (*attend_chunk)(const View& view, const Queries& queries, uint32_t chunk, Partial out,
                       float* probs);
  // Does the same for tokens of prompts, several times as fast with many queries, but with other
  // rounding. A query's bits depend on its own rows only, as above. Falls back to attend_chunk for
  // chunks of several types or of other types (has_prompt_tiles), segments with queries of their
  // own, slopes, and lists (Queries::visible). Null if the instruction set has no such kernel.
  void (*attend_prompt)(const View& view, const Queries& queries, uint32_t chunk, Partial out,
                        float* probs);
  // Merges next into `into`, in chunk order.
  void (*merge)(Partial into, Partial next, uint32_t queries, uint32_t v_dim);
  // out[i][d] = acc/sum, with the sinks in the sum, for [tokens][group] queries, out_stride floats
  // between two tokens. Then adds the view's rest: out = (1 - mass) * out + mass * rest.
  void (*finish)(Partial state, const View& view, const Queries& queries, float* out,
                 size_t out_stride);

  // -- choosing rows --
  // out[i] = the dot product of row i with q, for n rows of `dims` elements, `stride` bytes from
  // one to the next, of type F32, F16, BF16 or static (codes are not scaled).
  void (*dot_rows)(DType type, const std::byte* rows, size_t stride, size_t n, const float* q,
                   size_t dims, float* out);
  // Does the same for rows stored as columns, of type F32, F16 or STATIC8, and for several queries.
  // q: [queries][dims]; out: [queries][out_stride], of which shape.rows scores are written. A score
  // does not depend on the other queries.
  void (*dot_columns)(DType type, const std::byte* columns, Columns shape, const float* q,
                      size_t queries, float* out, size_t out_stride);
  // Does the same for ranges of rows in blocks, whose scores follow each other, with each query
  // rounded to 16-bit integers; a score that is not finite is NaN. Null if the instruction set has
  // no such kernel.
  void (*score_quads)(const Quads& quads, const float* q, size_t queries, float* out,
                      size_t out_stride);
  // Returns how many of x[0, n) are above the limit; NaN is not.
  size_t (*count_above)(const float* x, size_t n, float limit);
  // Writes their indices, ascending, to out, which has room for them. Returns how many.
  size_t (*indices_above)(const float* x, size_t n, float limit, uint32_t* out);

  // -- sampling --
  // Replaces n logits, none above `highest`, by token weights exp(scale * (x[i] - highest)) rounded
  // to a multiple of 2^-34. sums[b] is the exact sum of weights [b * kWeightBlock, (b + 1) *
  // kWeightBlock): it does not depend on their order. The same bits under every instruction set.
  // scale: 1 / temperature, finite.
  void (*weigh_tokens)(float* x, size_t n, float highest, float scale, double* sums);

  // -- a memory of slots --
  // x[i] = exp(scale * (x[i] - max x)), scale > 0; returns their sum. The caller does the softmax's
  // division later, where there are fewer elements.
  float (*exp_row)(float* x, size_t n, float scale);
  void (*walk_memory)(const MemoryWalk& walk);

  // -- cache rows: float32 to any of their types (dtype.h) --
  void (*store_row)(DType type, const float* in, size_t n, std::byte* out);
  // Stores kGroupRows rows of a type that stores rows in groups. in: as for group_from_f32.
  void (*store_group)(DType type, const float* in, size_t stride, size_t n, std::byte* const* rows);

  // Replaces each block of `block` elements (a power of two from 32 to 512 that divides n) by its
  // Hadamard transform H x / sqrt(block), which is its own inverse. The same bits under every
  // instruction set.
  void (*hadamard)(float* x, size_t n, size_t block);

  // -- states --
  // Token after token, S = decay * S, then S += k (beta * (v - S^T k))^T, and out = S^T q (Yang et
  // al. 2025, "Gated Delta Networks", equation 10). The bits of a token do not depend on how tokens
  // are divided into runs, nor a panel's on the other panels. k_dim: a multiple of 8.
  void (*delta_rule)(const DeltaRun& run);
};

// Returns the table of an instruction set, which this processor must support (KVICK_CHECK).
const Table& table(base::Isa isa);
// Returns the same table with matmul_rounded, for which F16 weights are best converted to BF16.
// Null if the instruction set does not multiply bfloat16. products_of_bf16_pay (probe.h) measures
// whether it is faster.
const Table* rounding_table(base::Isa isa);

// Returns the strongest supported instruction set, or the one that the environment variable
// KVICK_ISA names (base::isa_names()), the only variable read below cli/. Error: unknown or
// unsupported name.
base::Result<base::Isa> choose_isa();

}  // namespace kvick::kernels
