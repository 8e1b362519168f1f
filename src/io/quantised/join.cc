#include "io/quantised/join.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "io/quantised/fp8_weights.h"
#include "io/quantised/integer_modules.h"
#include "io/quantised/module.h"

namespace kvick::io {
namespace {

using base::Done;
using base::Status;
using Method = Scheme::Method;

// A tensor that belongs to another one (`to`) of its module. An empty `to`: no weight needs it,
// because it is about activations or a quantised cache.
struct Part {
  std::string_view name, to;
};
constexpr std::array kParts = {
    Part{".qzeros", ".qweight"},
    Part{".scales", ".qweight"},
    Part{".g_idx", ".qweight"},
    Part{".weight_scale", ".weight_packed"},
    Part{".weight_zero_point", ".weight_packed"},
    Part{".weight_shape", ".weight_packed"},
    Part{".weight_g_idx", ".weight_packed"},
    Part{".weight_scale", ".weight"},
    Part{".weight_scale_inv", ".weight"},
    Part{".weight_zero_point", ".weight"},
    Part{"_scales", "_blocks"},
    Part{".input_scale", ""},
    Part{".input_zero_point", ""},
    Part{".output_scale", ""},
    Part{".activation_scale", ""},
    Part{".k_scale", ""},
    Part{".v_scale", ""},
};

// Returns the name without its end ("a.b.qweight" without ".qweight" is "a.b"), or nullopt.
std::optional<std::string> without(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return std::nullopt;
  name.remove_suffix(end.size());
  return std::string(name);
}

bool is_float(const StoredTensor& tensor) {
  return stored_type_info(tensor.type).dtype.has_value();
}

class Joiner {
 public:
  Joiner(const Scheme& scheme, GateUp gate_up, const std::vector<StoredTensor>& stored)
      : scheme_(scheme), gate_up_(gate_up) {
    for (const StoredTensor& tensor : stored) index_.emplace(tensor.name, &tensor);
  }

  Status<> add(const StoredTensor& stored);
  std::vector<JoinedTensor> take() { return std::move(out_); }

 private:
  // Return false if the tensor is not of this kind.
  base::Result<bool> add_quantised(const StoredTensor& stored);
  base::Result<bool> add_experts(const StoredTensor& stored);
  Status<> add_mxfp4(const StoredTensor& blocks, const std::string& base);
  base::Result<Tensor> bytes_tensor(const Module& module, const StoredTensor& stored) const;
  bool is_part(const StoredTensor& stored) const;
  Status<> put(base::Result<Tensor> tensor, const StoredTensor& from) {
    KVICK_TRY(Tensor whole, std::move(tensor));
    out_.push_back({std::move(whole), from.label});
    return Done{};
  }
  // Calls make(name, outputs) for each tensor that `stored` becomes. base:
  // "...experts.gate_up_proj".
  template <typename Make>
  Status<> put_experts(const StoredTensor& stored, const std::string& base, std::string_view end,
                       uint64_t outputs, const Make& make);

  const Scheme& scheme_;
  GateUp gate_up_;
  StoredIndex index_;
  std::vector<JoinedTensor> out_;
};

bool Joiner::is_part(const StoredTensor& stored) const {
  for (const auto& [name, to] : kParts) {
    const auto base = without(stored.name, name);
    if (!base) continue;
    if (to.empty()) return true;
    const auto whole = index_.find(*base + std::string(to));
    // Scales of float weights have no meaning, so they do not count as parts and are refused later.
    if (whole != index_.end() && (to != ".weight" || !is_float(*whole->second))) return true;
  }
  return false;
}

base::Result<Tensor> Joiner::bytes_tensor(const Module& module, const StoredTensor& stored) const {
  if (stored.type == StoredType::kI8) return signed_tensor(module, scheme_);
  const StoredTensor* scales = module.find(".weight_scale_inv");
  if (scales == nullptr) {
    KVICK_TRY(scales, module.need(".weight_scale", stored));
  }
  return fp8_tensor(stored.name, stored, *scales, {scheme_.block_outputs, scheme_.block_inputs});
}

base::Result<bool> Joiner::add_quantised(const StoredTensor& stored) {
  const Method method = scheme_.method;
  if (method == Method::kNone) return false;
  if (is_part(stored)) return true;
  std::optional<std::string> base;
  if (method == Method::kGptq || method == Method::kAwq) {
    base = without(stored.name, ".qweight");
    if (!base) return false;
    const Module module(index_, *base);
    KVICK_TRY_VOID(
        put(method == Method::kGptq ? gptq_tensor(module, scheme_) : awq_tensor(module, scheme_),
            stored));
    return true;
  }
  if ((base = without(stored.name, ".weight_packed")) && method == Method::kCompressed) {
    KVICK_TRY_VOID(put(packed_tensor(Module(index_, *base), scheme_), stored));
    return true;
  }
  const bool bytes = stored.type == StoredType::kF8E4M3 ||
                     (stored.type == StoredType::kI8 && method == Method::kCompressed);
  if (bytes && (base = without(stored.name, ".weight"))) {
    KVICK_TRY_VOID(put(bytes_tensor(Module(index_, *base), stored), stored));
    return true;
  }
  if (method == Method::kMxfp4 && (base = without(stored.name, "_blocks"))) {
    KVICK_TRY_VOID(add_mxfp4(stored, *base));
    return true;
  }
  return false;
}

template <typename Make>
Status<> Joiner::put_experts(const StoredTensor& stored, const std::string& base,
                             std::string_view end, uint64_t outputs, const Make& make) {
  const auto both = without(base, ".gate_up_proj");
  if (!both) return put(make(base + std::string(end), Outputs{0, 1, outputs}), stored);
  KVICK_TRY(const auto halves, split_gate_up(gate_up_, outputs, stored.label));
  KVICK_TRY_VOID(put(make(*both + ".gate_proj" + std::string(end), halves.first), stored));
  return put(make(*both + ".up_proj" + std::string(end), halves.second), stored);
}

Status<> Joiner::add_mxfp4(const StoredTensor& blocks, const std::string& base) {
  const auto scales = index_.find(base + "_scales");
  if (scales == index_.end())
    return base::fail("{}: has no {}_scales beside it", blocks.label, base);
  const uint64_t outputs = blocks.shape.size() == 4 ? blocks.shape[1] : 0;
  return put_experts(blocks, base, ".weight", outputs, [&](const std::string& name, Outputs some) {
    return mxfp4_experts(name, blocks, *scales->second, some);
  });
}

base::Result<bool> Joiner::add_experts(const StoredTensor& stored) {
  if (gate_up_ == GateUp::kNone) return false;
  for (const std::string_view projection : {".experts.gate_up_proj", ".experts.down_proj"}) {
    if (stored.name.ends_with(projection)) {
      const uint64_t outputs = stored.shape.size() == 3 ? stored.shape[2] : 0;
      KVICK_TRY_VOID(put_experts(stored, stored.name, ".weight", outputs,
                                 [&](const std::string& name, Outputs some) {
                                   return turned_experts(name, stored, some);
                                 }));
      return true;
    }
    const auto base = without(stored.name, "_bias");
    if (base && base->ends_with(projection)) {
      const uint64_t outputs = stored.shape.size() == 2 ? stored.shape[1] : 0;
      KVICK_TRY_VOID(
          put_experts(stored, *base, ".bias", outputs, [&](const std::string& name, Outputs some) {
            return expert_biases(name, stored, some);
          }));
      return true;
    }
  }
  return false;
}

Status<> Joiner::add(const StoredTensor& stored) {
  KVICK_TRY(bool added, add_quantised(stored));
  if (added) return Done{};
  KVICK_TRY(added, add_experts(stored));
  if (added) return Done{};
  return put(plain_tensor(stored), stored);
}

}  // namespace

base::Result<std::vector<JoinedTensor>> join_tensors(const Scheme& scheme, GateUp gate_up,
                                                     const std::vector<StoredTensor>& stored) {
  Joiner joiner(scheme, gate_up, stored);
  for (const StoredTensor& tensor : stored) KVICK_TRY_VOID(joiner.add(tensor));
  return joiner.take();
}

}  // namespace kvick::io
