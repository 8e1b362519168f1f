#include "make_model/hugging_face.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "make_model/output.h"
#include "make_model/vocabulary.h"

namespace kvick::tools {
namespace {

using Json = nlohmann::ordered_json;
using kernels::DType;

std::string_view torch_type(DType type) {
  return type == DType::kF32 ? "float32" : type == DType::kF16 ? "float16" : "bfloat16";
}

Json opt_config(const Spec& spec) {
  return {{"architectures", {"OPTForCausalLM"}},
          {"model_type", "opt"},
          {"activation_function", "relu"},
          {"do_layer_norm_before", true},
          {"enable_bias", true},
          {"layer_norm_elementwise_affine", true},
          {"hidden_size", spec.dim},
          {"word_embed_proj_dim", spec.dim},
          {"ffn_dim", spec.ffn},
          {"num_hidden_layers", spec.layers},
          {"num_attention_heads", spec.heads},
          {"max_position_embeddings", spec.context}};
}

Json rope_scaling(const Spec& spec) {
  switch (spec.scaling) {
    case Scaling::kNone:
      return nullptr;
    case Scaling::kLinear:
      return {{"rope_type", "linear"}, {"factor", spec.scaling_factor}};
    case Scaling::kYarn:
      return {{"rope_type", "yarn"},
              {"factor", spec.scaling_factor},
              {"original_max_position_embeddings", spec.original_context()}};
    case Scaling::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", spec.scaling_factor},
              {"low_freq_factor", kLowFrequencyFactor},
              {"high_freq_factor", kHighFrequencyFactor},
              {"original_max_position_embeddings", spec.original_context()}};
  }
  KVICK_CHECK(false, "rope scaling {}", static_cast<int>(spec.scaling));
}

Json gated_config(const Spec& spec) {
  const std::string_view class_name = spec.arch == Arch::kLlama   ? "LlamaForCausalLM"
                                      : spec.arch == Arch::kQwen2 ? "Qwen2ForCausalLM"
                                                                  : "Qwen3ForCausalLM";
  Json config = {{"architectures", {class_name}},
                 {"model_type", arch_name(spec.arch)},
                 {"hidden_act", "silu"},
                 {"hidden_size", spec.dim},
                 {"intermediate_size", spec.ffn},
                 {"num_hidden_layers", spec.layers},
                 {"num_attention_heads", spec.heads},
                 {"num_key_value_heads", spec.kv_heads},
                 {"head_dim", spec.head_dim},
                 {"max_position_embeddings", spec.context},
                 {"rms_norm_eps", spec.norm_eps()},
                 {"rope_theta", spec.rope_base},
                 {"rope_scaling", rope_scaling(spec)}};
  if (spec.arch != Arch::kQwen2) config["attention_bias"] = false;
  return config;
}

std::string config_json(const Spec& spec, const MadeVocabulary& vocabulary) {
  Json config = spec.arch == Arch::kOpt ? opt_config(spec) : gated_config(spec);
  config["vocab_size"] = spec.vocab;
  config["bos_token_id"] = vocabulary.bos;
  config["eos_token_id"] = vocabulary.eos;
  config["tie_word_embeddings"] = spec.tied;
  config["torch_dtype"] = torch_type(spec.type);
  return config.dump(2) + "\n";
}

std::string tokenizer_json(const MadeVocabulary& v) {
  Json vocab = Json::object(), added = Json::array();
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    if (v.types[i] == kControlToken)
      added.push_back({{"id", i},
                       {"content", v.pieces[i]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    vocab[v.pieces[i]] = i;
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"vocab", vocab},
                       {"merges", v.merges}}}};
  return root.dump(1) + "\n";
}

std::string tokenizer_config_json(const MadeVocabulary& v) {
  const Json root = {{"bos_token", v.pieces[v.bos]},
                     {"eos_token", v.pieces[v.eos]},
                     {"add_bos_token", v.add_bos},
                     {"chat_template", kChatTemplate},
                     {"tokenizer_class", "GPT2TokenizerFast"}};
  return root.dump(2) + "\n";
}

// Writes one safetensors file: the header's size, the header, and the tensors without gaps.
base::Status<> write_safetensors(const std::string& path, const Spec& spec,
                                 std::span<const TensorInfo> tensors, base::ThreadPool& pool) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    const uint64_t end = offset + tensor_bytes(tensor);
    header[tensor.hf_name] = {{"dtype", kernels::dtype_info(tensor.type).name},
                              {"shape", tensor.shape},
                              {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  KVICK_TRY(OutputFile file, OutputFile::open(path));
  const uint64_t size = text.size();
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(text);
  const RowSource source = [&spec](const TensorInfo& tensor, uint64_t row, float* out) {
    fill_row(spec, tensor, gguf_row(tensor, row), out);
  };
  for (const TensorInfo& tensor : tensors) write_tensor(file, tensor, source, pool);
  file.close();
  return base::Done{};
}

base::Status<> write_shards(const std::string& folder, const Spec& spec, uint32_t shards,
                            base::ThreadPool& pool) {
  std::vector<TensorInfo> tensors = tensors_of(spec);
  std::erase_if(tensors, [](const TensorInfo& tensor) { return tensor.hf_name.empty(); });
  if (shards == 0 || shards > tensors.size())
    return base::fail("--shards {}: from 1 to {}, the number of tensors", shards, tensors.size());
  if (shards == 1) return write_safetensors(folder + "/model.safetensors", spec, tensors, pool);
  Json weight_map = Json::object();
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < shards; ++i) {
    const size_t first = tensors.size() * i / shards, end = tensors.size() * (i + 1) / shards;
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards);
    const auto part = std::span(tensors).subspan(first, end - first);
    KVICK_TRY_VOID(write_safetensors(folder + "/" + name, spec, part, pool));
    for (const TensorInfo& tensor : part) {
      weight_map[tensor.hf_name] = name;
      bytes += tensor_bytes(tensor);
    }
  }
  const Json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", weight_map}};
  return write_text(folder + "/model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace

base::Status<> make_hugging_face(const std::string& path, const Spec& spec, uint32_t shards,
                                 base::ThreadPool& pool) {
  if (spec.arch == Arch::kBct)
    return base::fail("--arch bct: Hugging Face has no such architecture; use --format gguf");
  if (kernels::dtype_info(spec.type).block != 1)
    return base::fail("--type {}: safetensors hold F32, F16 and BF16; use --format gguf",
                      kernels::dtype_info(spec.type).name);
  if (spec.vocabulary != VocabularyKind::kByteLevel)
    return base::fail("--vocabulary llama: only GGUF files can carry it; use --format gguf");
  KVICK_TRY(const MadeVocabulary vocabulary, make_vocabulary(spec.vocabulary, spec.vocab));
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return base::fail("{}: cannot be made: {}", path, error.message());
  KVICK_TRY_VOID(write_text(path + "/config.json", config_json(spec, vocabulary)));
  KVICK_TRY_VOID(write_text(path + "/tokenizer.json", tokenizer_json(vocabulary)));
  KVICK_TRY_VOID(write_text(path + "/tokenizer_config.json", tokenizer_config_json(vocabulary)));
  return write_shards(path, spec, shards, pool);
}

}  // namespace kvick::tools
