#include "engine/artifacts/identity.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/file/split_name.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;

// Bytes that one thread hashes at a time.
constexpr size_t kPieceBytes = size_t{4} << 20;

base::Result<std::vector<fs::path>> files_of(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> files;
  if (!fs::is_directory(path, error)) {
    for (const std::string& part : io::split_paths(path.string())) files.emplace_back(part);
    return files;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string kind = entry.path().extension().string();
    if (kind == ".json" || kind == ".safetensors") files.push_back(entry.path());
  }
  if (error) return base::fail("the folder {} cannot be read: {}", path.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

base::Result<XXH128_hash_t> file_hash(const fs::path& path, base::ThreadPool& pool) {
  KVICK_TRY(const base::MappedFile file, base::MappedFile::open(path.string()));
  const std::span<const std::byte> bytes = file.bytes();
  std::vector<XXH128_hash_t> pieces((bytes.size() + kPieceBytes - 1) / kPieceBytes);
  pool.parallel_for(pieces.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      const size_t first = i * kPieceBytes, n = std::min(kPieceBytes, bytes.size() - first);
      pieces[i] = XXH3_128bits(bytes.data() + first, n);
    }
  });
  return XXH3_128bits_withSeed(pieces.data(), pieces.size() * sizeof(pieces[0]), bytes.size());
}

}  // namespace

FileSummary summary_of(const io::ModelFile& file) {
  FileSummary summary = {.container = file.container()};
  std::map<kernels::DType, uint64_t> of_type;
  for (const io::Tensor& tensor : file.tensors()) {
    summary.parameters += tensor.elements();
    of_type[tensor.dtype] += tensor.elements();
  }
  uint64_t most = 0;
  for (const auto& [type, parameters] : of_type) {
    if (parameters <= most) continue;
    most = parameters;
    summary.weights = type;
  }
  return summary;
}

ModelIdentity identity_of(const model::Config& config, std::string weights) {
  return {.arch = config.arch,
          .layers = config.layer_count(),
          .kv_heads = config.heads_layer().kv_heads,
          .head_dim = config.heads_layer().k_dim,
          .weights = std::move(weights)};
}

base::Result<std::string> content_hash(const std::string& path, base::ThreadPool& pool) {
  KVICK_TRY(const std::vector<fs::path> files, files_of(path));
  std::string hashes;  // of all files; for a folder each with its name
  for (const fs::path& file : files) {
    KVICK_TRY(const XXH128_hash_t hash, file_hash(file, pool));
    const std::string name = files.size() > 1 ? file.filename().string() : "";
    hashes += fmt::format("{:016x}{:016x}{}\n", hash.high64, hash.low64, name);
  }
  const XXH128_hash_t all = XXH3_128bits(hashes.data(), hashes.size());
  return fmt::format("{:016x}{:016x}", all.high64, all.low64);
}

namespace {

// Structured bindings, here and below, so that a new field does not compile until it is named.
std::string rope_text(const model::Rope& rope) {
  const auto& [dims, interleaved, frequency, magnitude] = rope;
  return fmt::format(" | {} {} {} {:a} {:a}", frequency.size(), dims, interleaved, magnitude,
                     fmt::join(frequency, " "));
}

std::string experts_text(const model::ExpertsConfig& experts) {
  const auto& [count, used, ffn, shared_ffn, groups, groups_used, router, normalised, scale] =
      experts;
  if (count == 0) return "";
  return fmt::format(" {} {} {} {} {} {} {} {} {:a}", count, used, ffn, shared_ffn, groups,
                     groups_used, static_cast<int>(router), normalised, scale);
}

std::string state_text(const model::StateConfig& state) {
  const auto& [kind, conv_kernel, conv_channels, heads, groups, head_dim, state_size, tiled] =
      state;
  if (kind == model::StateConfig::Kind::kNone) return "";
  return fmt::format(" state {} {} {} {} {} {} {} {}", static_cast<int>(kind), conv_kernel,
                     conv_channels, heads, groups, head_dim, state_size, tiled);
}

std::string temperature_text(const model::QueryTemperature& temperature) {
  const auto& [scale, floor, offset] = temperature;
  return scale == 0 ? "" : fmt::format(" | {:a} {:a} {:a}", scale, floor, offset);
}

std::string latent_text(const model::LatentConfig& latent) {
  const auto& [rank, q_rank, plain, rotated, v_dim] = latent;
  if (rank == 0) return "";
  return fmt::format(" latent {} {} {} {} {}", rank, q_rank, plain, rotated, v_dim);
}

std::string layer_text(const model::LayerConfig& layer) {
  const auto& [kind, heads, kv_heads, k_dim, v_dim, latent, ffn, experts, window, chunked, rope,
               scale, softcap, sinks, alibi, tempered, sparsity, rows_of, state, both_ways] = layer;
  return fmt::format(
      " | {} {} {} {} {} {} {} {} {} {:a} {:a} {} {}{}{}{}{}{}{}{}", static_cast<int>(kind), heads,
      kv_heads, k_dim, v_dim, ffn, window, chunked, rope, scale, softcap, sinks, rows_of,
      tempered ? " tempered" : "", experts_text(experts), latent_text(latent), state_text(state),
      both_ways ? " both ways" : "", alibi == 0 ? "" : fmt::format(" alibi {:a}", alibi),
      sparsity == 0 ? "" : fmt::format(" sparse {:a}", sparsity));
}

}  // namespace

std::string config_text(const model::Config& config) {
  const auto& [arch, name, dim, vocab, context, learned_positions, norm_eps, embedding_scale,
               residual_scale, logit_scale, logit_softcap, layer_inputs, streams, temperature,
               pooling, scored, head_norms, norm_behind_rope, ropes, layers] = config;
  std::string text = fmt::format("{} {} {} {} {} {:a} {:a} {:a} {:a} {:a}", arch, dim, vocab,
                                 context, learned_positions, norm_eps, embedding_scale,
                                 residual_scale, logit_scale, logit_softcap);
  for (const model::Rope& rope : ropes) text += rope_text(rope);
  for (const model::LayerConfig& layer : layers) text += layer_text(layer);
  text += temperature_text(temperature);
  if (pooling) text += fmt::format(" | pooling {}", static_cast<int>(*pooling));
  if (scored != model::Pooling::kLast)
    text += fmt::format(" | scored {}", static_cast<int>(scored));
  if (!head_norms) text += " | plain heads";
  if (norm_behind_rope) text += " | norms behind rope";
  if (layer_inputs != 0 || streams != 1)
    text += fmt::format(" | inputs {} streams {}", layer_inputs, streams);
  return text + " | " + name;
}

uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash) {
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 1099511628211u;
  return hash;
}

std::string weights_of(const io::ModelFile& file) {
  constexpr size_t kEnd = 64;  // bytes hashed at each end of a tensor
  uint64_t hash = fnv1a({});
  for (const io::Tensor& tensor : file.tensors()) {
    hash = fnv1a(std::as_bytes(std::span(tensor.name)), hash);
    const auto type = static_cast<uint64_t>(tensor.dtype);
    hash = fnv1a(std::as_bytes(std::span(&type, 1)), hash);
    hash = fnv1a(std::as_bytes(std::span(tensor.shape)), hash);
    const auto parts = tensor.source == nullptr ? std::vector{tensor.data} : tensor.source->parts();
    for (const std::span<const std::byte> part : parts) {
      const size_t n = std::min(kEnd, part.size());
      hash = fnv1a(part.last(n), fnv1a(part.first(n), hash));
    }
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace kvick::engine
