#pragma once
// Identifies the model that an artifact file was made for.

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
  std::string weights;  // 16 hexadecimal digits that identify the weights: weights_of
  bool operator==(const ModelIdentity&) const = default;
};

// A summary of a model's file, for reports to users.
struct FileSummary {
  io::Container container = io::Container::kGguf;
  uint64_t parameters = 0;                        // elements of all tensors
  kernels::DType weights = kernels::DType::kF32;  // the type of most elements
};
FileSummary summary_of(const io::ModelFile& file);

// Returns ModelIdentity::weights without reading all weights: a hash of each tensor's name, type,
// shape, and first and last 64 bytes. The same weights in another format have another hash.
std::string weights_of(const io::ModelFile& file);

// Combines the weights' hash with the configuration.
ModelIdentity identity_of(const model::Config& config, std::string weights);

// Returns a hash of all bytes of a file (of all parts, if it is the first of a split GGUF), or of
// all .json and .safetensors files of a model's folder: 32 hexadecimal digits. All threads together
// reach the speed of memory: 0.4 s for 4.7 GB of an 8B model in the page cache. Error: a file that
// cannot be read.
base::Result<std::string> content_hash(const std::string& path, base::ThreadPool& pool);

// Returns all that kvick has read of a model's configuration, as text.
std::string config_text(const model::Config& config);

// Returns the FNV-1a hash of some bytes, continued from `hash`.
uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash = 14695981039346656037u);

}  // namespace kvick::engine
