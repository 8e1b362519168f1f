#include "make_model/gguf.h"

#include <array>

namespace kvick::tools {
namespace {

using kernels::DType;

constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

// ggml_type and llama_ftype ("mostly this type") of each DType, in its order.
struct TypeNumbers {
  uint32_t ggml, file;
};
constexpr std::array<TypeNumbers, kernels::kWeightTypes> kNumbers = {{{0, 0},
                                                                      {1, 1},
                                                                      {30, 32},
                                                                      {8, 7},
                                                                      {2, 2},
                                                                      {3, 3},
                                                                      {6, 8},
                                                                      {7, 9},
                                                                      {10, 10},
                                                                      {11, 12},
                                                                      {12, 15},
                                                                      {13, 17},
                                                                      {14, 18}}};

template <typename T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& to, std::string_view text) {
  append(to, static_cast<uint64_t>(text.size()));
  to.append(text);
}

std::string tensor_infos(std::span<const TensorInfo> tensors, uint64_t alignment) {
  std::string out;
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    append_text(out, tensor.name);
    append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t d = tensor.shape.size(); d-- > 0;) append(out, tensor.shape[d]);  // innermost first
    append(out, kNumbers[static_cast<size_t>(tensor.type)].ggml);
    append(out, offset);
    offset = (offset + tensor_bytes(tensor) + alignment - 1) / alignment * alignment;
  }
  return out;
}

void put_rope(const Spec& spec, const std::string& prefix, GgufMetadata& metadata) {
  metadata.put(prefix + "rope.dimension_count", spec.head_dim);
  metadata.put(prefix + "rope.freq_base", spec.rope_base);
  // Llama 3's scaling is a tensor, rope_freqs.weight.
  if (spec.scaling != Scaling::kLinear && spec.scaling != Scaling::kYarn) return;
  metadata.put(prefix + "rope.scaling.type", spec.scaling == Scaling::kLinear ? "linear" : "yarn");
  metadata.put(prefix + "rope.scaling.factor", spec.scaling_factor);
  metadata.put(prefix + "rope.scaling.original_context_length", spec.original_context());
}

}  // namespace

void GgufMetadata::begin(std::string_view key, uint32_t type) {
  append_text(bytes_, key);
  append(bytes_, type);
  ++count_;
}

void GgufMetadata::begin_array(std::string_view key, uint32_t type, uint64_t size) {
  begin(key, kArray);
  append(bytes_, type);
  append(bytes_, size);
}

void GgufMetadata::put(std::string_view key, std::string_view value) {
  begin(key, kString);
  append_text(bytes_, value);
}
void GgufMetadata::put(std::string_view key, uint32_t value) {
  begin(key, kUint32);
  append(bytes_, value);
}
void GgufMetadata::put(std::string_view key, float value) {
  begin(key, kFloat32);
  append(bytes_, value);
}
void GgufMetadata::put(std::string_view key, bool value) {
  begin(key, kBool);
  append(bytes_, static_cast<uint8_t>(value));
}
void GgufMetadata::put(std::string_view key, std::span<const std::string> values) {
  begin_array(key, kString, values.size());
  for (const std::string& value : values) append_text(bytes_, value);
}
void GgufMetadata::put(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, kInt32, values.size());
  for (const int32_t value : values) append(bytes_, value);
}
void GgufMetadata::put(std::string_view key, std::span<const float> values) {
  begin_array(key, kFloat32, values.size());
  for (const float value : values) append(bytes_, value);
}

void GgufMetadata::put_encoded(std::string_view bytes, uint64_t count) {
  bytes_.append(bytes);
  count_ += count;
}

uint32_t gguf_file_type(DType type) { return kNumbers[static_cast<size_t>(type)].file; }

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
                          base::ThreadPool& pool, uint64_t alignment) {
  KVICK_TRY(OutputFile file, OutputFile::open(path));
  std::string header = "GGUF";
  append(header, uint32_t{3});
  append(header, static_cast<uint64_t>(tensors.size()));
  append(header, metadata.count());
  file.write(header);
  file.write(metadata.bytes());
  file.write(tensor_infos(tensors, alignment));
  for (const TensorInfo& tensor : tensors) {
    file.pad_to(alignment);
    write_tensor(file, tensor, source, pool);
  }
  file.pad_to(alignment);
  file.close();
  return base::Done{};
}

base::Status<> make_gguf(const std::string& path, const Spec& spec, base::ThreadPool& pool) {
  if (spec.arch == Arch::kOpt)
    return base::fail("--arch opt: GGUF has no such architecture; use --format hf");
  KVICK_TRY(MadeVocabulary vocabulary, make_vocabulary(spec.vocabulary, spec.vocab));
  if (spec.arch == Arch::kQwen2 || spec.arch == Arch::kQwen3) vocabulary.pre = "qwen2";
  const std::string arch(arch_name(spec.arch)), prefix = arch + ".";
  GgufMetadata metadata;
  metadata.put("general.architecture", std::string_view(arch));
  metadata.put("general.name", std::string_view(fmt::format("random {} seed {}", arch, spec.seed)));
  metadata.put("general.file_type", gguf_file_type(spec.type));
  metadata.put("general.quantization_version", 2u);
  metadata.put(prefix + "context_length", spec.context);
  metadata.put(prefix + "embedding_length", spec.dim);
  metadata.put(prefix + "block_count", spec.layers);
  metadata.put(prefix + "feed_forward_length", spec.ffn);
  metadata.put(prefix + "attention.head_count", spec.heads);
  metadata.put(prefix + "attention.head_count_kv", spec.kv_heads);
  metadata.put(prefix + "attention.key_length", spec.head_dim);
  metadata.put(prefix + "attention.value_length", spec.head_dim);
  metadata.put(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(spec.norm_eps()));
  metadata.put(prefix + "vocab_size", spec.vocab);
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
