#pragma once
// Which model a file that was made for one belongs to.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "io/file/model_file.h"
#include "model/core/config.h"

namespace kvick::engine {

struct ModelIdentity {
  std::string arch;
  uint32_t layers = 0, kv_heads = 0, head_dim = 0;
  std::string weights;  // 16 hexadecimal digits that tell one set of weights from another
  bool operator==(const ModelIdentity&) const = default;
};

// What a model's file is, for those who are told of it.
struct FileSummary {
  io::Container container = io::Container::kGguf;
  uint64_t parameters = 0;                        // elements of all tensors
  kernels::DType weights = kernels::DType::kF32;  // the type of most of them
};
FileSummary summary_of(const io::ModelFile& file);

// ModelIdentity::weights, without reading all of them: from every tensor's name, type, shape and
// outermost 64 bytes. The same weights in another format are other weights.
std::string weights_of(const io::ModelFile& file);

// With what was read of the configuration.
ModelIdentity identity_of(const model::Config& config, std::string weights);

// Of all bytes of a file (of all parts, if it is the first of a split GGUF), or of a model's folder
// all of its .json and .safetensors files: 32 hexadecimal digits. Memory's speed, by all threads:
// 0.4 s for 4.7 GB of an 8B model that is in the page cache. Error: a file that cannot be read.
base::Result<std::string> content_hash(const std::string& path, base::ThreadPool& pool);

// All that kvick has understood of a model's configuration.
std::string config_text(const model::Config& config);

// FNV-1a of some bytes, going on from `hash`.
uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash = 14695981039346656037u);

}  // namespace kvick::engine
