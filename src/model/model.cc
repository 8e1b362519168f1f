#include "model/model.h"

#include <string>

#include "model/decoder.h"
#include "model/families/read_config.h"

namespace kvick::model {
uint32_t Batch::tokens() const {
  size_t tokens = 0;
  for (const Slot& slot : slots) tokens += slot.tokens.size();
  return static_cast<uint32_t>(tokens);
}

std::vector<kv::Slot> kv_slots(const Batch& batch) {
  std::vector<kv::Slot> slots;
  slots.reserve(batch.slots.size());
  for (const Slot& slot : batch.slots)
    slots.push_back({.seq = slot.seq,
                     .fresh = static_cast<uint32_t>(slot.tokens.size()),
                     .tokens = slot.tokens});
  return slots;
}

kv::Shape Model::kv_shape(kernels::DType k_type, kernels::DType v_type, uint32_t max_tokens) const {
  KVICK_CHECK(config_.keeps_alike(), "one shape of rows for the {} layers of {}",
              config_.layer_count(), config_.name);
  return {.layers = config_.layer_count(),
          .kv_heads = config_.layers.front().kv_heads,
          .head_dim = config_.layers.front().k_dim,
          .max_tokens = max_tokens != 0 ? max_tokens : config_.context,
          .k_type = k_type,
          .v_type = v_type};
}

std::vector<kv::LayerSpec> Model::kv_layers() const {
  using Keeps = kv::LayerSpec::Keeps;
  std::vector<kv::LayerSpec> specs;
  for (const LayerConfig& layer : config_.layers)
    specs.push_back({.keeps = layer.kind == LayerConfig::Kind::kSlots ? Keeps::kSlots
                              : layer.owns_rows()                     ? Keeps::kRows
                                                                      : Keeps::kNothing,
                     .kv_heads = layer.kv_heads,
                     .k_dim = layer.k_dim,
                     .v_dim = layer.v_dim,
                     .window = layer.window,
                     .chunked = layer.chunked,
                     .rows_of = layer.rows_of});
  return specs;
}

base::Result<std::unique_ptr<Model>> Model::load(io::ModelFile file, const LoadOptions& options) {
  KVICK_CHECK(options.kernels != nullptr && options.pool != nullptr,
              "load needs kernels and threads");
  KVICK_TRY(const std::string arch, file.get_string("general.architecture"));
  const Family* family = find_family(arch, options.families);
  if (family == nullptr) {
    std::string names;
    for (const Family& known : families())
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    return base::fail("{}: general.architecture is \"{}\"; kvick runs {}", file.path(), arch,
                      names);
  }
  KVICK_TRY(Config config, read_config(file, family));
  auto model = std::make_unique<Decoder>(std::move(config), std::move(file));
  KVICK_TRY_VOID(model->read(*family, options));
  if (!options.outputs.empty()) model->outputs_ = static_cast<uint32_t>(options.outputs.size());
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace kvick::model
