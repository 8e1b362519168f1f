#include "kernels/attention/bucket_attention.h"

#include <algorithm>
#include <dnnl.hpp>
#include <unordered_map>

extern "C" void omp_set_num_threads(int threads);  // of omp.h, which clang of Debian 12 lacks

namespace kvick::kernels {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

Desc floats(Dims dims, Dims strides) {
  return {std::move(dims), dnnl::memory::data_type::f32, std::move(strides)};
}

// Makes oneDNN use the calling thread only. Debian's oneDNN starts OpenMP threads, which spin while
// they wait, but the caller is one of a pool's threads that share the heads already.
void use_one_thread() { omp_set_num_threads(1); }

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// The library does not write through pointers to inputs.
dnnl::memory wrap(const Desc& desc, const float* data) {
  return {desc, cpu(), const_cast<float*>(data)};
}

}  // namespace

bool bucket_attention_built() { return true; }

struct BucketAttention::Products {
  explicit Products(const BucketShape& shape) {
    const int64_t heads = shape.heads, queries = shape.queries, rows = shape.rows;
    const int64_t k_dim = shape.k_dim, v_dim = shape.v_dim;
    q = floats({heads, queries, k_dim}, {queries * k_dim, k_dim, 1});
    out = floats({heads, queries, v_dim}, {queries * v_dim, v_dim, 1});
    keys = floats({heads, k_dim, rows}, {static_cast<int64_t>(shape.k_head_stride), 1, k_dim});
    values = floats({heads, rows, v_dim},
                    {static_cast<int64_t>(shape.v_head_stride), shape.v_stride, 1});
    logits = floats({heads, queries, rows}, {queries * rows, rows, 1});
    // With one bias per query, oneDNN 2.6 uses its reference code, which needs more than ten
    // minutes for a prompt of one second. So run() adds that bias.
    if (shape.one_bias) bias = floats({1, 1, rows}, {rows, rows, 1});
    // Debian's oneDNN would otherwise share one scratchpad between all threads.
    dnnl::primitive_attr plain, scaled;
    plain.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    scaled.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    scaled.set_output_scales(0, {shape.scale});
    score = compile<dnnl::matmul>({{q, keys, bias, logits}, scaled, cpu()});
    softmax = compile<dnnl::softmax_forward>(
        {{dnnl::prop_kind::forward_inference, logits, 2}, plain, cpu()});
    add = compile<dnnl::matmul>({{logits, values, out}, plain, cpu()});
  }

  struct Compiled {
    dnnl::primitive primitive;
    Desc scratch;
  };
  template <class Primitive>
  Compiled compile(const typename Primitive::primitive_desc& desc) {
    scratch_bytes = std::max(scratch_bytes, desc.scratchpad_desc().get_size());
    return {Primitive(desc), desc.scratchpad_desc()};
  }

  Desc q, keys, values, logits, bias, out;
  size_t scratch_bytes = 0;
  Compiled score, softmax, add;
};

BucketAttention::BucketAttention(base::Clock clock) : clock_(clock) {
  // The library's own cache would hide the cost of compiling.
  dnnl::set_primitive_cache_capacity(0);
}

BucketAttention::~BucketAttention() = default;

size_t BucketAttention::prepare(const BucketShape& shape) { return products(shape).scratch_bytes; }

const BucketAttention::Products& BucketAttention::products(const BucketShape& shape) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Products>& found = products_[shape];
  if (found == nullptr) {
    const double start = clock_();
    use_one_thread();
    found = std::make_unique<Products>(shape);
    ++compiled_.shapes;
    compiled_.seconds += clock_() - start;
  }
  return *found;
}

void BucketAttention::run(const BucketShape& shape, const BucketMemory& memory) {
  const Products& p = products(shape);
  use_one_thread();
  dnnl::stream stream(cpu());
  const auto execute = [&](const Products::Compiled& compiled,
                           std::unordered_map<int, dnnl::memory> arguments) {
    arguments[DNNL_ARG_SCRATCHPAD] = {compiled.scratch, cpu(), memory.scratch};
    compiled.primitive.execute(stream, arguments);
  };
  const dnnl::memory logits = wrap(p.logits, memory.logits);
  std::unordered_map<int, dnnl::memory> score = {{DNNL_ARG_SRC, wrap(p.q, memory.q)},
                                                 {DNNL_ARG_WEIGHTS, wrap(p.keys, memory.k)},
                                                 {DNNL_ARG_DST, logits}};
  if (shape.one_bias) score[DNNL_ARG_BIAS] = wrap(p.bias, memory.bias);
  execute(p.score, score);
  if (!shape.one_bias) {
    const size_t count = size_t{shape.queries} * shape.rows;
    for (uint32_t head = 0; head < shape.heads; ++head)
      for (size_t i = 0; i < count; ++i) memory.logits[head * count + i] += memory.bias[i];
  }
  execute(p.softmax, {{DNNL_ARG_SRC, logits}, {DNNL_ARG_DST, logits}});
  execute(p.add, {{DNNL_ARG_SRC, logits},
                  {DNNL_ARG_WEIGHTS, wrap(p.values, memory.v)},
                  {DNNL_ARG_DST, wrap(p.out, memory.out)}});
}

BucketAttention::Compiled BucketAttention::compiled() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

}  // namespace kvick::kernels
