#include <cmath>

#include "model/families/family.h"
#include "model/families/read_config.h"

namespace kvick::model {
namespace {

using base::fail;
using base::Result;
using Router = ExpertsConfig::Router;

constexpr uint64_t kMostExperts = 1 << 14, kMostWidth = 1 << 20;

// Reads a number of llama.cpp's enum llama_expert_gating_func_type; 0 or no key: `usual`.
Result<Router> read_router(const io::ModelFile& file, const std::string& key, Router usual) {
  KVICK_TRY(const uint64_t number, file.get_uint(key, 0));
  switch (number) {
    case 0:
      return usual;
    case 1:
      return Router::kSoftmax;
    case 2:
      return Router::kSigmoid;
    case 3:
      return Router::kSoftmaxOfChosen;
    default:
      return fail(
          "{}: {} is {}; kvick knows 1 (softmax), 2 (sigmoid) and 3 (softmax of the chosen)",
          file.path(), key, number);
  }
}

// Reads the numbers that all layers with experts share.
Result<ExpertsConfig> read_numbers(const io::ModelFile& file, const std::string& prefix,
                                   ExpertsConfig experts) {
  KVICK_TRY(experts.count, bounded_number(file, prefix + "expert_count", kMostExperts));
  KVICK_TRY(experts.used, bounded_number(file, prefix + "expert_used_count", experts.count));
  KVICK_TRY(experts.router, read_router(file, prefix + "expert_gating_func", experts.router));
  KVICK_TRY(experts.normalised, file.get_bool(prefix + "expert_weights_norm", experts.normalised));
  const std::string scale = prefix + "expert_weights_scale";
  KVICK_TRY(const double factor, file.get_float(scale, 0));
  if (!(factor >= 0) || !std::isfinite(factor))
    return fail("{}: {} is {}, but must not be negative", file.path(), scale, factor);
  if (factor != 0) experts.scale = static_cast<float>(factor);  // 0 means no factor
  const std::string groups = prefix + "expert_group_count";
  KVICK_TRY(const uint64_t count, file.get_uint(groups, 1));
  if (count > 1) {
    if (experts.count % count != 0)
      return fail("{}: {} is {}, of which the {} experts are no multiple", file.path(), groups,
                  count, experts.count);
    experts.groups = static_cast<uint32_t>(count);
    KVICK_TRY(experts.groups_used,
              bounded_number(file, prefix + "expert_group_used_count", experts.groups));
    if (experts.used > experts.count / experts.groups * experts.groups_used)
      return fail("{}: {} experts are used, but {} groups have only {}", file.path(), experts.used,
                  experts.groups_used, experts.count / experts.groups * experts.groups_used);
  }
  return experts;
}

// Returns the inputs of a tensor, which may have a dimension for the experts; 0: there is no such
// tensor.
Result<uint32_t> width_of(const io::ModelFile& file, const std::string& name) {
  const io::Tensor* tensor = file.find(name);
  if (tensor == nullptr) return 0;
  const uint64_t width = tensor->shape.empty() ? 0 : tensor->shape.back();
  if (width == 0 || width > kMostWidth)
    return fail("{}: tensor {} has {} inputs, outside 1 to {}", file.path(), name, width,
                kMostWidth);
  return static_cast<uint32_t>(width);
}

}  // namespace

base::Status<> read_experts(const io::ModelFile& file, const Family& family, Config& config) {
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    if (file.find(block + "ffn_gate_inp.weight") == nullptr) continue;
    LayerConfig& layer = config.layers[i];
    KVICK_TRY(layer.experts, read_numbers(file, config.arch + ".", family.experts));
    KVICK_TRY(layer.experts.ffn, width_of(file, block + "ffn_down_exps.weight"));
    if (layer.experts.ffn == 0) {
      KVICK_TRY(layer.experts.ffn, width_of(file, block + "ffn_down.0.weight"));
    }
    if (layer.experts.ffn == 0)
      return fail("{}: layer {} has a router of experts, but no tensor {}ffn_down_exps.weight",
                  file.path(), i, block);
    const char* const shared =
        family.mixture.parallel ? "ffn_down.weight" : "ffn_down_shexp.weight";
    KVICK_TRY(layer.experts.shared_ffn, width_of(file, block + shared));
    if (family.mixture.parallel && layer.experts.shared_ffn == 0)
      return fail("{}: layer {} has experts, but no tensor {}ffn_down.weight beside them",
                  file.path(), i, block);
    layer.ffn = 0;
  }
  return base::Done{};
}

}  // namespace kvick::model
