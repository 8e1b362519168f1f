#include "model/attend/attend_buckets.h"

#include <algorithm>

#include "base/check.h"

namespace kvick::model {
namespace {

using kernels::BucketShape;
using kernels::Segment;

// Tokens per product where a slot has several; a product's logits are [tokens * group][rows].
constexpr uint32_t kTileTokens = 32;

// The part of a slot that one product computes: heads [head, head + heads) and tokens [first, first
// + tokens).
struct Product {
  const BucketSlot* slot;
  uint32_t head, heads, first, tokens;
};

const Segment& fresh_of(const Product& product, uint32_t head) {
  return product.slot->views[head].fresh;
}

const float* row_of(const std::byte* base, uint32_t stride, uint32_t row) {
  return reinterpret_cast<const float*>(base + size_t{row} * stride);
}

void check_segment(const Segment& segment, const LayerConfig& layer) {
  KVICK_CHECK(segment.bucket.rows > 0, "a view without a bucket");
  KVICK_CHECK(segment.k_type == kernels::DType::kF32 && segment.v_type == kernels::DType::kF32,
              "buckets of type {} and {}", static_cast<int>(segment.k_type),
              static_cast<int>(segment.v_type));
  KVICK_CHECK_EQ(segment.k_stride, layer.k_dim * sizeof(float));
  KVICK_CHECK_EQ(segment.v_stride, layer.v_dim * sizeof(float));
}

BucketShape shape_of(const LayerConfig& layer, const Product& product) {
  const Segment& first = fresh_of(product, product.head);
  BucketShape shape = {.heads = product.heads,
                       .queries = product.tokens * layer.group(),
                       .rows = first.bucket.rows,
                       .k_dim = layer.k_dim,
                       .v_dim = layer.v_dim,
                       .v_stride = layer.v_dim,
                       .k_head_stride = uint64_t{first.bucket.rows} * layer.k_dim,
                       .v_head_stride = uint64_t{first.bucket.rows} * layer.v_dim,
                       .one_bias = product.tokens == 1,
                       .scale = layer.scale};
  for (uint32_t i = 0; i < product.heads; ++i) {
    const Segment& segment = fresh_of(product, product.head + i);
    check_segment(segment, layer);
    if (i == 1) {
      shape.k_head_stride = static_cast<uint64_t>(segment.k - first.k) / sizeof(float);
      shape.v_head_stride = static_cast<uint64_t>(segment.v - first.v) / sizeof(float);
    }
    KVICK_CHECK(segment.k == first.k + i * shape.k_head_stride * sizeof(float) &&
                    segment.v == first.v + i * shape.v_head_stride * sizeof(float),
                "the heads of a bucket are not evenly apart");
  }
  return shape;
}

// Fills the bias of one token's queries: 0 for the rows that it sees, kUnseen for all others.
void fill_bias(const LayerConfig& layer, const BucketSlot& slot, const kernels::View& view,
               uint32_t token, float* bias) {
  const kernels::Bucket bucket = view.fresh.bucket;
  std::fill_n(bias, bucket.rows, kernels::kUnseen);
  const uint32_t begin = kernels::first_seen({.first = token,
                                              .tokens = 1,
                                              .visible = slot.visible,
                                              .window = layer.window,
                                              .chunked = layer.chunked,
                                              .position = slot.position});
  // Shows the rows that are inside the window; the first of `rows` rows has position `position`.
  const auto show = [&](uint32_t row, uint32_t rows, uint32_t position) {
    const uint32_t before = begin > position ? std::min(begin - position, rows) : 0;
    std::fill_n(bias + (row + before - bucket.row), rows - before, 0.0F);
  };
  for (const Segment& past : view.past)
    for (const kernels::Run& run : past.runs) show(run.row, run.rows, run.pos);
  const kernels::Run& fresh = view.fresh.runs.front();
  if (slot.visible == nullptr) return show(fresh.row, token + 1, slot.position);
  uint32_t position = slot.position;
  for (const uint32_t row : slot.visible[token]) show(fresh.row + row, 1, position++);
}

std::vector<Product> products_of(const LayerConfig& layer, std::span<const BucketSlot> slots,
                                 unsigned workers) {
  std::vector<Product> products;
  for (const BucketSlot& slot : slots) {
    const bool one = slot.tokens == 1;
    const auto parts = static_cast<uint32_t>((workers + slots.size() - 1) / slots.size());
    const uint32_t heads = one ? std::max(1U, (layer.kv_heads + parts - 1) / parts) : 1;
    for (uint32_t head = 0; head < layer.kv_heads; head += heads)
      for (uint32_t first = 0; first < slot.tokens; first += kTileTokens)
        products.push_back({&slot, head, std::min(heads, layer.kv_heads - head), first,
                            std::min(kTileTokens, slot.tokens - first)});
  }
  return products;
}

// Copies queries or results of some tokens between the layer's layout and a dense block. from, to:
// the first token's floats.
void copy_tokens(uint32_t tokens, size_t floats, const float* from, size_t from_stride, float* to,
                 size_t to_stride) {
  for (uint32_t t = 0; t < tokens; ++t)
    std::copy_n(from + t * from_stride, floats, to + t * to_stride);
}

// Sizes of a product's memory in floats, each a whole number of cache lines.
struct Sizes {
  size_t scratch = 0, bias = 0, logits = 0, q = 0, out = 0;
  size_t all() const { return scratch + bias + logits + q + out; }
};
Sizes sizes_of(const BucketShape& shape, kernels::BucketAttention& library) {
  constexpr size_t kLine = base::kCacheLine / sizeof(float);
  const auto lines = [](size_t floats) { return (floats + kLine - 1) / kLine * kLine; };
  return {.scratch = lines(library.prepare(shape) / sizeof(float) + 1),
          .bias = lines(size_t{shape.one_bias ? 1 : shape.queries} * shape.rows),
          .logits = lines(size_t{shape.heads} * shape.queries * shape.rows),
          .q = lines(size_t{shape.heads} * shape.queries * shape.k_dim),
          .out = lines(size_t{shape.heads} * shape.queries * shape.v_dim)};
}

void run_product(const LayerConfig& layer, const Product& product, float* memory,
                 kernels::BucketAttention& library) {
  const BucketShape shape = shape_of(layer, product);
  const Sizes sizes = sizes_of(shape, library);
  float* bias = memory + sizes.scratch;
  float* logits = bias + sizes.bias;
  float* q = logits + sizes.logits;
  float* out = q + sizes.q;
  const BucketSlot& slot = *product.slot;
  const kernels::View& view = slot.views[product.head];
  const uint32_t repeats = shape.one_bias ? 1 : layer.group();
  for (uint32_t t = 0; t < product.tokens; ++t)
    for (uint32_t g = 0; g < repeats; ++g)
      fill_bias(layer, slot, view, product.first + t,
                bias + (t * repeats + g) * size_t{shape.rows});
  const size_t q_heads = size_t{product.heads} * layer.group();
  const size_t first_head = size_t{product.head} * layer.group();
  const float* const from =
      slot.q + size_t{product.first} * layer.q_floats() + first_head * layer.k_dim;
  float* const to =
      slot.out + size_t{product.first} * layer.out_floats() + first_head * layer.v_dim;
  const size_t q_floats = q_heads * layer.k_dim, out_floats = q_heads * layer.v_dim;
  copy_tokens(product.tokens, q_floats, from, layer.q_floats(), q, q_floats);
  library.run(shape, {.q = q,
                      .k = row_of(view.fresh.k, view.fresh.k_stride, view.fresh.bucket.row),
                      .v = row_of(view.fresh.v, view.fresh.v_stride, view.fresh.bucket.row),
                      .bias = bias,
                      .logits = logits,
                      .out = out,
                      .scratch = reinterpret_cast<std::byte*>(memory)});
  copy_tokens(product.tokens, out_floats, out, out_floats, to, layer.out_floats());
}

}  // namespace

void attend_buckets(const LayerConfig& layer, std::span<const BucketSlot> slots,
                    kernels::BucketAttention& library, Workspace& workspace) {
  const std::vector<Product> products = products_of(layer, slots, workspace.pool.size());
  size_t most = 0;
  for (const Product& product : products) {
    // sizes_of compiles the product's shape. Doing it here saves the workers from waiting for a
    // compilation.
    most = std::max(most, sizes_of(shape_of(layer, product), library).all());
  }
  float* memory = workspace.floats(Workspace::kPartials, workspace.pool.size() * most);
  workspace.pool.parallel_for(products.size(), 1, [&](size_t begin, size_t end, unsigned worker) {
    for (size_t i = begin; i < end; ++i)
      run_product(layer, products[i], memory + worker * most, library);
  });
}

}  // namespace kvick::model
