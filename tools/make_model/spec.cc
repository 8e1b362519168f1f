#include "make_model/spec.h"

#include <algorithm>
#include <span>

#include "make_model/random.h"

namespace kvick::tools {
namespace {

using kernels::DType;

base::Error not_a_multiple(std::string_view what, uint32_t value, DType type) {
  return base::fail(
      "--type {}: {} is {}, which is no multiple of its block of {} values; name a type for such "
      "matrices with --odd-type",
      kernels::dtype_info(type).name, what, value, kernels::dtype_info(type).block);
}

}  // namespace

std::string_view arch_name(Arch arch) {
  switch (arch) {
    case Arch::kLlama:
      return "llama";
    case Arch::kQwen2:
      return "qwen2";
    case Arch::kQwen3:
      return "qwen3";
    case Arch::kOpt:
      return "opt";
    case Arch::kBct:
      return "bct";
  }
  KVICK_CHECK(false, "architecture {}", static_cast<int>(arch));
}

bool Spec::has_window(uint32_t layer) const {
  if (!features.windowed.empty()) return features.windowed[layer];
  const uint32_t period = features.window_period;
  return features.window != 0 && (period == 0 || layer % period < period - 1);
}

Spec Spec::of_layer(uint32_t layer) const {
  Spec own = *this;
  if (!features.heads.empty()) own.heads = features.heads[layer];
  if (!features.kv_heads.empty()) own.kv_heads = features.kv_heads[layer];
  if (!features.ffn.empty()) own.ffn = features.ffn[layer];
  if (features.window_head_dim != 0 && has_window(layer)) own.head_dim = features.window_head_dim;
  return own;
}

uint32_t Spec::original_context() const {
  return static_cast<uint32_t>(static_cast<float>(context) / scaling_factor);
}

base::Result<Spec> preset(std::string_view name) {
  Spec spec;
  if (name == "S") {
    spec.layers = 30, spec.dim = 576, spec.ffn = 1536, spec.heads = 9, spec.kv_heads = 3;
    spec.vocab = 49152, spec.context = 8192, spec.tied = true, spec.rope_base = 100000;
  } else if (name == "M") {
    spec.layers = 16, spec.dim = 2048, spec.ffn = 8192, spec.heads = 32, spec.kv_heads = 8;
    spec.vocab = 32000, spec.context = 131072, spec.tied = true, spec.rope_base = 500000;
  } else if (name == "L7") {
    spec.layers = 8, spec.dim = 4096, spec.ffn = 11008, spec.heads = 32, spec.kv_heads = 32;
    spec.vocab = 32000, spec.context = 4096;
  } else {
    return base::fail("--shape {}: the shapes are S, M and L7", name);
  }
  return spec;
}

base::Result<Spec> checked(Spec spec) {
  if (spec.layers == 0 || spec.dim == 0 || spec.ffn == 0 || spec.heads == 0 || spec.context == 0)
    return base::fail("layers, dim, ffn, heads and context must be at least 1");
  if (spec.kv_heads == 0)
    spec.kv_heads = spec.arch == Arch::kOpt ? spec.heads : std::max(1u, spec.heads / 2);
  const Features& f = spec.features;
  const bool latent = f.latent != 0;
  if (!latent && (f.q_latent | f.plain | f.value_dim) != 0)
    return base::fail("--q-latent, --plain, --value-dim: only with --latent");
  if (latent) {
    if (f.plain == 0 || f.value_dim == 0 || spec.rotated == 0)
      return base::fail("--plain, --rotated and --value-dim must be at least 1 with --latent");
    spec.head_dim = spec.features.plain + spec.rotated;
    if (spec.features.joined_heads) spec.kv_heads = spec.heads;
  }
  if (spec.head_dim == 0) spec.head_dim = spec.dim / spec.heads;
  if (spec.head_dim == 0 || spec.head_dim % 2 != 0)
    return base::fail("--head-dim {}: rotary pairs need an even number", spec.head_dim);
  if (spec.rotated % 2 != 0 || spec.rotated > spec.head_dim)
    return base::fail("--rotated {}: must be even and at most the head's {} elements", spec.rotated,
                      spec.head_dim);
  if (spec.arch != Arch::kBct && spec.slots != 0)
    return base::fail("--slots {}: only bct has a memory of slots", spec.slots);
  if (spec.arch == Arch::kBct && spec.slots == 0) spec.slots = 64;
  if (spec.arch == Arch::kBct && spec.scaling != Scaling::kNone)
    return base::fail("bct has no rotary embedding to scale");
  if (spec.heads % spec.kv_heads != 0)
    return base::fail("--heads {} is no multiple of --kv-heads {}", spec.heads, spec.kv_heads);
  if (!(spec.scaling_factor >= 1) || spec.original_context() == 0)
    return base::fail("--rope-scaling: a factor of {} makes no sense for a context of {}",
                      spec.scaling_factor, spec.context);
  for (const auto* each : {&f.heads, &f.kv_heads, &f.ffn})
    if (!each->empty() && each->size() != spec.layers)
      return base::fail("{} numbers for {} layers", each->size(), spec.layers);
  if (!f.windowed.empty() && f.windowed.size() != spec.layers)
    return base::fail("windows of {} layers of {}", f.windowed.size(), spec.layers);
  if (f.shared_layers >= spec.layers)
    return base::fail("{} of {} layers cannot read the rows of others", f.shared_layers,
                      spec.layers);
  if (!spec.has_odd_type) {
    const uint32_t outputs = latent ? f.value_dim : spec.head_dim;
    for (const auto& [what, inputs] :
         {std::pair{"dim", spec.dim}, std::pair{"ffn", spec.ffn},
          std::pair{"heads * head_dim", spec.heads * outputs}, std::pair{"--latent", f.latent},
          std::pair{"--q-latent", f.q_latent},
          std::pair{"--plain", latent && !f.joined_heads ? f.plain : 0}})
      if (inputs % kernels::dtype_info(spec.type).block != 0)
        return not_a_multiple(what, inputs, spec.type);
  }
  if (spec.arch == Arch::kOpt) {
    spec.tied = true;
    if (spec.heads * spec.head_dim != spec.dim || spec.kv_heads != spec.heads)
      return base::fail("opt has heads * head_dim = dim and as many KV heads as heads");
    if (spec.scaling != Scaling::kNone) return base::fail("opt has no rotary embedding to scale");
  }
  return spec;
}

base::Result<DType> weight_type(const char* option, const std::string& name) {
  const auto type = kernels::dtype_from_name(name);
  if (!type || static_cast<int>(*type) >= kernels::kWeightTypes)
    return base::fail("{} {}: no such type", option, name);
  return *type;
}

base::Result<Spec> with_type(Spec spec, const std::string& name) {
  spec.more_bits = name == "Q4_K_M";
  KVICK_TRY(spec.type, weight_type("--type", spec.more_bits ? "Q4_K" : name));
  if (spec.more_bits && !spec.has_odd_type) {
    spec.odd_type = DType::kQ5_0;
    spec.has_odd_type = true;
  }
  return spec;
}

uint64_t gguf_row(const TensorInfo& tensor, uint64_t hf_row) {
  if (tensor.head_rows == 0) return hf_row;
  const uint64_t half = tensor.head_rows / 2, i = hf_row % tensor.head_rows;
  return hf_row - i + (i < half ? 2 * i : 2 * (i - half) + 1);
}

void fill_row(const Spec& spec, const TensorInfo& tensor, uint64_t row, float* out) {
  const std::span<float> to(out, tensor.inputs());
  if (!tensor.values.empty()) {
    std::copy_n(tensor.values.begin() + static_cast<ptrdiff_t>(row * to.size()), to.size(), out);
    return;
  }
  const std::string& name = tensor.like.empty() ? tensor.name : tensor.like;
  random_row(row_seed(spec.seed, name, row), tensor.sd, to);
  if (tensor.mean != 0)
    for (float& x : to) x += tensor.mean;
}

}  // namespace kvick::tools
