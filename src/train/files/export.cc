#include "train/files/export.h"

#include <cmath>
#include <cstring>

#include "io/gguf/gguf_writer.h"
#include "train/files/binary_file.h"
#include "train/files/q8_0.h"
#include "train/settings/shapes.h"

namespace kvick::train {
namespace {

struct TypeNumbers {
  uint32_t ggml, file;  // general.file_type
};
TypeNumbers numbers_of(FileType type) {
  switch (type) {
    case FileType::kF32:
      return {0, 0};
    case FileType::kBf16:
      return {30, 32};
    case FileType::kQ8_0:
      return {8, 7};
  }
  return {};
}

// Rounds to the nearest bfloat16, ties to even. Does not handle infinities or NaN, which no weights
// worth exporting have.
uint16_t bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

io::GgufMetadata metadata_of(const Checkpoint& c, FileType type, uint64_t context) {
  const ModelSettings& m = c.settings.model;
  const std::string prefix = m.arch + ".";
  io::GgufMetadata out;
  const auto number = [&](const std::string& key, uint64_t value) {
    out.put(prefix + key, static_cast<uint32_t>(value));
  };
  out.put("general.architecture", std::string_view(m.arch));
  out.put("general.name", std::string_view(text_of("kvick ", m.arch, " dim ", m.dim)));
  out.put("general.file_type", numbers_of(type).file);
  number("context_length", context);
  number("embedding_length", m.dim);
  number("block_count", m.layers);
  number("feed_forward_length", m.ffn);
  number("attention.head_count", m.heads);
  number("attention.head_count_kv", m.kv_heads);
  number("attention.key_length", m.head_dim);
  number("attention.value_length", m.head_dim);
  out.put(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(m.norm_eps));
  number("vocab_size", m.vocab);
  if (m.has_memory()) {
    number("memory.slots", m.slots);
    out.put(prefix + "memory.update", std::string_view(m.update));
    out.put(prefix + "memory.read", std::string_view(m.read));
  } else {
    number("rope.dimension_count", m.head_dim);
    out.put(prefix + "rope.freq_base", static_cast<float>(m.rope_base));
  }
  out.put_encoded(c.vocabulary.bytes, c.vocabulary.pairs);
  return out;
}

// Returns the type of a tensor in the file. Norms, biases and other tensors that are not matrices
// stay F32, as in other files. Keys of slots stay F32 instead of Q8_0, because attention multiplies
// by them.
FileType type_in_file(const TensorShape& tensor, FileType type) {
  const bool keys = tensor.name.ends_with("memory_keys.weight");
  return tensor.shape.size() != 2 || (keys && type == FileType::kQ8_0) ? FileType::kF32 : type;
}

uint64_t encoded_bytes(uint64_t elements, FileType type) {
  if (type == FileType::kQ8_0) return elements / kBlock * kBlockBytes;
  return elements * (type == FileType::kF32 ? sizeof(float) : sizeof(uint16_t));
}

// elements: a multiple of the block, as rows have.
std::string encoded(const float* values, uint64_t elements, FileType type) {
  std::string out;
  if (type == FileType::kF32) {
    out.assign(reinterpret_cast<const char*>(values), elements * sizeof(float));
  } else if (type == FileType::kBf16) {
    out.resize(elements * sizeof(uint16_t));
    for (uint64_t i = 0; i < elements; ++i) {
      const uint16_t half = bf16(values[i]);
      std::memcpy(&out[i * sizeof half], &half, sizeof half);
    }
  } else {
    out = q8_0_blocks(values, elements);
  }
  return out;
}

void check(const Checkpoint& c) {
  const ModelSettings& m = c.settings.model;
  if (m.has_memory() && m.update == "delta")
    refuse("the update delta is one that the engine does not have; it has plain, step and gated");
  if (c.vocabulary.pairs == 0)
    refuse("a model of made-up tokens (--task ", c.settings.run.task,
           ") has no vocabulary, and a model file needs one");
  for (const float value : c.best)
    if (!std::isfinite(value)) refuse("the weights are not finite; train with a smaller --lr");
}

}  // namespace

FileType file_type_of(const std::string& name) {
  if (name == "f32") return FileType::kF32;
  if (name == "bf16") return FileType::kBf16;
  if (name == "q8_0") return FileType::kQ8_0;
  refuse("--type is ", name, "; there are f32, bf16 and q8_0");
}

void export_model(const Checkpoint& c, const std::string& path, FileType type, uint64_t context) {
  check(c);
  const std::vector<TensorShape> tensors = tensors_of(c.settings.model);
  std::vector<io::GgufTensor> described;
  for (const TensorShape& t : tensors) {
    if (is_predictor(t)) continue;
    const FileType own = type_in_file(t, type);
    described.push_back({t.name, t.shape, numbers_of(own).ggml, encoded_bytes(t.elements(), own)});
  }
  BinaryWriter out(path);
  const std::string header = io::gguf_header(
      metadata_of(c, type, context != 0 ? context : c.settings.model.context), described);
  out.raw(header.data(), header.size());
  const float* values = c.best.data();
  for (const TensorShape& t : tensors) {
    const float* const of_tensor = values;
    values += t.elements();
    if (is_predictor(t)) continue;
    out.pad_to(io::kGgufAlignment);
    const std::string bytes = encoded(of_tensor, t.elements(), type_in_file(t, type));
    out.raw(bytes.data(), bytes.size());
  }
  out.pad_to(io::kGgufAlignment);
  out.finish();
}

}  // namespace kvick::train
