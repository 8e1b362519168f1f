#include "engine/options/layer_options.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <string_view>

#include "kv/registry/policies.h"
#include "model/core/model.h"
#include "model/states/state_type.h"

namespace kvick::engine {
namespace {

using base::fail;

// Whether the full-attention layers, whose rows a policy chooses among, rotate keys in several
// ways.
bool full_ropes_differ(const model::Config& config) {
  for (uint32_t layer = 0; layer < config.layer_count(); ++layer)
    if (config.layers[layer].attends() && config.layers[layer].window == 0 &&
        !(config.rope_of(layer) == config.rope_of_full()))
      return true;
  return false;
}

bool any_latent(const model::Config& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const model::LayerConfig& layer) { return layer.is_latent(); });
}

}  // namespace

void set_layers(const model::Config& config, const KvOptions& options, kv::Setup& setup) {
  model::set_layers(config, setup);
  model::set_state_type(options.type_of_states(), setup);
}

bool layers_differ(const model::Config& config) {
  return !config.layers_alike() || !config.windows_alike();
}

base::Status<> check_layers(const model::Config& config, const KvOptions& resolved) {
  // These two rotate queries themselves, by one rotation for all layers. So they are refused even
  // if layers differ in nothing else. Other policies leave keys and queries as they are.
  if (resolved.select.name == "expected" && full_ropes_differ(config))
    return fail(
        "expected averages the rotation of the next positions, and the layers of this model rotate "
        "in several ways: use quest, which needs no rotation");
  if (resolved.select.name == "streaming" && full_ropes_differ(config))
    return fail(
        "streaming moves keys to other positions, and the layers of this model rotate theirs in "
        "several ways: use quest, which leaves them in place");
  if (!layers_differ(config)) return base::Done{};
  for (const kernels::DType type : {*resolved.k_type, *resolved.v_type})
    if (kernels::is_static(type))
      return fail("{} needs layers that are all alike, and this model's differ: use q8 or f16",
                  kernels::dtype_info(type).name);
  if (resolved.aging && any_latent(config))
    return fail(
        "{} has types of old keys and old values, and this model keeps latent rows, which are "
        "both: "
        "use q8 or f16",
        kv_type_text(resolved));
  const kv::Policy* policy = kv::find_policy(resolved.select.name);
  if (policy != nullptr && kv::needs_file(*policy))
    return fail(
        "{} needs layers that are all alike, and this model's differ: use quest, which needs no "
        "training",
        policy->name);
  return base::Done{};
}

base::Status<> check_states(const model::Config& config, const KvOptions& options) {
  if (options.type_of_states() == kernels::DType::kF32 || config.keeps_states())
    return base::Done{};
  return fail(
      "state=bf16 is a type of states, and no layer of this model keeps one: leave it out of "
      "--kv-type");
}

base::Status<> check_buckets(const KvOptions& resolved) {
  using kernels::DType;
  if (!resolved.select.name.empty())
    return fail(
        "attention by bmm reads all rows of a bucket, but {} reads only some: leave one of the two "
        "out",
        resolved.select.name);
  if (resolved.k_type != DType::kF32 || resolved.v_type != DType::kF32)
    return fail("attention by bmm multiplies rows of float32 only: add --kv-type f32");
  const kv::Strategy* strategy = kv::find_strategy(resolved.spec.name);
  if (strategy == nullptr || strategy->traits.buckets) return base::Done{};
  std::vector<std::string_view> names;
  for (const kv::Strategy& one : kv::strategies())
    if (one.traits.buckets) names.push_back(one.name);
  return fail("attention by bmm needs rows in one piece, which {} does not keep; there are {}",
              resolved.spec.name, fmt::join(names, ", "));
}

std::vector<std::string> layer_notes(const model::Config& config, const KvOptions& resolved) {
  if (any_latent(config) && *resolved.k_type != *resolved.v_type) {
    KvOptions keys = resolved;
    keys.v_type = keys.k_type;
    return {fmt::format("latent rows are keys and values in one: they are kept as {}",
                        kv_type_text(keys))};
  }
  if (!layers_differ(config) || reads_all(resolved)) return {};
  uint32_t windows = 0, widest = 0;
  for (const model::LayerConfig& layer : config.layers)
    // A window as long as the context hides nothing.
    if (layer.window != 0 && (resolved.max_tokens == 0 || layer.window < resolved.max_tokens)) {
      ++windows;
      widest = std::max(widest, layer.window);
    }
  if (windows == 0) return {};
  return {fmt::format(
      "{} chooses among the rows of {} of {} layers; the others see at most {} "
      "tokens, and read them all",
      resolved.select.name, config.layer_count() - windows, config.layer_count(), widest)};
}

}  // namespace kvick::engine
