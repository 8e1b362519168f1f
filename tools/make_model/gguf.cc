#include "make_model/gguf.h"

#include <array>

namespace kvick::tools {
namespace {

using kernels::DType;

// ggml_type and llama_ftype ("mostly this type") of each DType, in its order.
struct TypeNumbers {
  uint32_t ggml, file;
};
constexpr std::array<TypeNumbers, kernels::kWeightTypes> kNumbers = {
    {{0, 0},   {1, 1},   {30, 32}, {8, 7},   {2, 2},   {3, 3},   {6, 8},   {7, 9},   {10, 10},
     {11, 12}, {12, 15}, {13, 17}, {14, 18}, {20, 25}, {23, 30}, {39, 38}, {40, 39}, {21, 26},
     {18, 23}, {22, 28}, {17, 20}, {16, 19}, {19, 24}, {29, 31}, {34, 36}, {35, 37}}};

std::vector<io::GgufTensor> described(std::span<const TensorInfo> tensors) {
  std::vector<io::GgufTensor> out;
  for (const TensorInfo& tensor : tensors)
    out.push_back({.name = tensor.name,
                   .shape = tensor.shape,
                   .type = kNumbers[static_cast<size_t>(tensor.type)].ggml,
                   .bytes = tensor_bytes(tensor)});
  return out;
}

void put_rope(const Spec& spec, const std::string& prefix, GgufMetadata& metadata) {
  metadata.put(prefix + "rope.dimension_count", spec.rotated != 0 ? spec.rotated : spec.head_dim);
  metadata.put(prefix + "rope.freq_base", spec.rope_base);
  // Llama 3's scaling is a tensor, rope_freqs.weight, and not metadata.
  if (spec.scaling != Scaling::kLinear && spec.scaling != Scaling::kYarn) return;
  metadata.put(prefix + "rope.scaling.type", spec.scaling == Scaling::kLinear ? "linear" : "yarn");
  metadata.put(prefix + "rope.scaling.factor", spec.scaling_factor);
  metadata.put(prefix + "rope.scaling.original_context_length", spec.original_context());
}

// Writes the sizes of heads: those that attention sees and, for latent rows, those of queries and
// values.
void put_head_sizes(const Spec& spec, const std::string& prefix, GgufMetadata& metadata) {
  const Features& f = spec.features;
  const auto put = [&](const char* key, uint32_t value) {
    metadata.put(prefix + "attention." + key, value);
  };
  const bool split = f.latent != 0 && !f.joined_heads;
  put("key_length", split ? f.latent + spec.rotated : spec.head_dim);
  put("value_length", split ? f.latent : f.latent != 0 ? f.value_dim : spec.head_dim);
  if (f.latent != 0) put("kv_lora_rank", f.latent);
  if (f.q_latent != 0) put("q_lora_rank", f.q_latent);
  if (!split) return;
  put("key_length_mla", spec.head_dim);
  put("value_length_mla", f.value_dim);
}

void put_sizes(const Spec& spec, const std::string& prefix, GgufMetadata& metadata) {
  const Features& f = spec.features;
  const auto put = [&](const char* key, uint32_t one, const std::vector<uint32_t>& each) {
    if (each.empty()) return metadata.put(prefix + key, one);
    const std::vector<int32_t> values(each.begin(), each.end());
    metadata.put(prefix + key, std::span(values));
  };
  metadata.put(prefix + "context_length", spec.context);
  metadata.put(prefix + "embedding_length", spec.dim);
  metadata.put(prefix + "block_count", spec.layers + f.draft_layers);
  if (f.draft_layers != 0) metadata.put(prefix + "nextn_predict_layers", f.draft_layers);
  put("feed_forward_length", spec.ffn, f.ffn);
  put("attention.head_count", spec.heads, f.heads);
  put("attention.head_count_kv", spec.kv_heads, f.kv_heads);
  put_head_sizes(spec, prefix, metadata);
  metadata.put(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(spec.norm_eps()));
  metadata.put(prefix + "vocab_size", spec.vocab);
}

void put_delta(const Features& f, const std::string& prefix, GgufMetadata& metadata) {
  metadata.put(prefix + "full_attention_interval", f.delta_period);
  // Sections of the positions in pictures. Text does not use them, but other engines require the
  // key.
  const int32_t sections[] = {2, 1, 1, 0};
  metadata.put(prefix + "rope.dimension_sections", std::span(sections));
}

// Writes keys without which other engines refuse an encoder's file.
void put_encoder(const Features& f, const std::string& prefix, GgufMetadata& metadata) {
  if (f.token_types != 0) metadata.put("tokenizer.ggml.token_type_count", f.token_types);
  if (f.pooled_width != 0) {
    metadata.put(prefix + "dense_2_feat_out", f.pooled_width);
    metadata.put(prefix + "dense_3_feat_in", f.pooled_width);
  }
  std::vector<std::string> labels;
  for (uint32_t i = 0; i < f.rank_labels; ++i) labels.push_back(fmt::format("label {}", i));
  if (!labels.empty()) metadata.put(prefix + "classifier.output_labels", std::span(labels));
}

void put_features(const Features& f, const std::string& prefix, GgufMetadata& metadata) {
  if (f.window != 0) metadata.put(prefix + "attention.sliding_window", f.window);
  if (f.window_period != 0)
    metadata.put(prefix + "attention.sliding_window_pattern", f.window_period);
  if (!f.windowed.empty()) metadata.put(prefix + "attention.sliding_window_pattern", f.windowed);
  if (f.layer_inputs != 0)
    metadata.put(prefix + "embedding_length_per_layer_input", f.layer_inputs);
  if (!f.sparsity.empty())
    metadata.put(prefix + "activation_sparsity_scale", std::span(f.sparsity));
  if (f.window_head_dim != 0)
    for (const char* key : {"attention.key_length_swa", "attention.value_length_swa"})
      metadata.put(prefix + key, f.window_head_dim);
  if (f.window_rope_base != 0) metadata.put(prefix + "rope.freq_base_swa", f.window_rope_base);
  if (f.shared_layers != 0) metadata.put(prefix + "attention.shared_kv_layers", f.shared_layers);
  if (f.softcap != 0) metadata.put(prefix + "attn_logit_softcapping", f.softcap);
  if (f.logit_softcap != 0) metadata.put(prefix + "final_logit_softcapping", f.logit_softcap);
  if (f.expert_period != 0) {
    metadata.put(prefix + "expert_count", f.experts);
    metadata.put(prefix + "expert_used_count", f.experts_used);
    metadata.put(prefix + "expert_feed_forward_length", f.expert_ffn);
    if (f.shared_ffn != 0) metadata.put(prefix + "expert_shared_feed_forward_length", f.shared_ffn);
    if (f.dense_layers != 0) metadata.put(prefix + "leading_dense_block_count", f.dense_layers);
  }
  if (f.conv_kernel != 0 && f.state_heads == 0)
    metadata.put(prefix + "shortconv.l_cache", f.conv_kernel);
  if (f.state_heads != 0)
    for (const auto& [key, value] :
         {std::pair{"conv_kernel", f.conv_kernel}, std::pair{"inner_size", f.state_inner()},
          std::pair{"state_size", f.state_size}, std::pair{"time_step_rank", f.state_heads},
          std::pair{"group_count", f.state_groups}})
      metadata.put(prefix + "ssm." + key, value);
  if (f.delta_period != 0) put_delta(f, prefix, metadata);
  put_encoder(f, prefix, metadata);
  for (const Key& key : f.keys)
    std::visit([&](const auto& value) { metadata.put(prefix + key.name, value); }, key.value);
}

}  // namespace

void put_vocabulary(const MadeVocabulary& v, GgufMetadata& metadata) {
  metadata.put("tokenizer.ggml.model", std::string_view(v.model));
  metadata.put("tokenizer.ggml.pre", std::string_view(v.pre));
  metadata.put("tokenizer.ggml.tokens", std::span(v.pieces));
  metadata.put("tokenizer.ggml.token_type", std::span(v.types));
  if (!v.scores.empty()) metadata.put("tokenizer.ggml.scores", std::span(v.scores));
  if (!v.merges.empty()) metadata.put("tokenizer.ggml.merges", std::span(v.merges));
  metadata.put("tokenizer.ggml.bos_token_id", v.bos);
  metadata.put("tokenizer.ggml.eos_token_id", v.eos);
  metadata.put("tokenizer.ggml.add_bos_token", v.add_bos);
  if (v.model == "gpt2") metadata.put("tokenizer.chat_template", kChatTemplate);
  if (v.model == "llama") metadata.put("tokenizer.ggml.unknown_token_id", 0u);
}

base::Status<> write_gguf(const std::string& path, const GgufMetadata& metadata,
                          std::span<const TensorInfo> tensors, const RowSource& source,
                          base::ThreadPool& pool) {
  KVICK_TRY(OutputFile file, OutputFile::open(path));
  file.write(io::gguf_header(metadata, described(tensors)));
  for (const TensorInfo& tensor : tensors) {
    file.pad_to(kGgufAlignment);
    write_tensor(file, tensor, source, pool);
  }
  file.pad_to(kGgufAlignment);
  file.close();
  return base::Done{};
}

base::Status<> make_gguf(const std::string& path, const Spec& spec, base::ThreadPool& pool) {
  if (spec.arch == Arch::kOpt)
    return base::fail("--arch opt: GGUF has no such architecture; use --format hf");
  KVICK_TRY(MadeVocabulary vocabulary, make_vocabulary(spec.vocabulary, spec.vocab - spec.unnamed));
  if (spec.arch == Arch::kQwen2 || spec.arch == Arch::kQwen3) vocabulary.pre = "qwen2";
  const std::string& family = spec.features.family;
  const std::string arch(family.empty() ? arch_name(spec.arch) : family), prefix = arch + ".";
  GgufMetadata metadata;
  metadata.put("general.architecture", std::string_view(arch));
  // Some engines choose the tokenizer by the family's name in this key.
  metadata.put("general.name",
               std::string_view(
                   fmt::format("random {}seed {}", family.empty() ? arch + " " : "", spec.seed)));
  metadata.put("general.file_type", kNumbers[static_cast<size_t>(spec.type)].file);
  metadata.put("general.quantization_version", 2u);
  put_sizes(spec, prefix, metadata);
  put_features(spec.features, prefix, metadata);
  if (spec.arch == Arch::kBct)
    metadata.put(prefix + "memory.slots", spec.slots);
  else
    put_rope(spec, prefix, metadata);
  put_vocabulary(vocabulary, metadata);
  const std::vector<TensorInfo> tensors = tensors_of(spec);
  const RowSource source = [&spec](const TensorInfo& tensor, uint64_t row, float* out) {
    fill_row(spec, tensor, row, out);
  };
  return write_gguf(path, metadata, tensors, source, pool);
}

}  // namespace kvick::tools
