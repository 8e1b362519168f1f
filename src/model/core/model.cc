#include "model/core/model.h"

#include <array>
#include <string>

#include "model/families/architectures.h"

namespace kvick::model {
namespace {

constexpr std::array kArchitectures = {
    Architecture{"llama", load_llama},  // Llama 1 to 3, Mistral, SmolLM, TinyLlama
    Architecture{"qwen2", load_qwen2},
    Architecture{"qwen3", load_qwen3},
    Architecture{"opt", load_opt},
    Architecture{"bct", load_bct},  // a memory of slots: docs/reference/bct-format.md
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

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
  return {.layers = config_.layers,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim,
          .max_tokens = max_tokens != 0 ? max_tokens : config_.context,
          .k_type = k_type,
          .v_type = v_type};
}

base::Result<std::unique_ptr<Model>> Model::load(io::ModelFile file, const LoadOptions& options) {
  KVICK_CHECK(options.kernels != nullptr && options.pool != nullptr,
              "load needs kernels and threads");
  KVICK_TRY(const std::string arch, file.get_string("general.architecture"));
  for (const Architecture& known : architectures()) {
    if (known.name != arch) continue;
    KVICK_TRY(Config config, read_config(file));
    KVICK_TRY(std::unique_ptr<Model> model,
              known.load(std::move(file), std::move(config), options));
    if (!options.outputs.empty()) model->outputs_ = static_cast<uint32_t>(options.outputs.size());
    return model;
  }
  std::string names;
  for (const Architecture& known : architectures())
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return base::fail("{}: general.architecture is \"{}\"; kvick runs {}", file.path(), arch, names);
}

}  // namespace kvick::model
