// Adapter::read: which matrices of the model an adapter's file changes, and the order of their
// rows.

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>

#include "io/families/hf_families.h"
#include "model/adapters/adapter.h"
#include "model/families/family.h"

namespace kvick::model {
namespace {

using base::fail;

constexpr std::string_view kMatrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                          "ffn_gate", "ffn_up", "ffn_down"};

// A matrix of the model that an adapter changes.
struct Place {
  uint32_t layer = 0;
  std::string_view matrix;  // "attn_q"
  bool is_ffn() const { return matrix.starts_with("ffn_"); }
  std::string tensor(std::string_view name) const {
    return fmt::format("blk.{}.{}.weight", layer, name);
  }
};

base::Result<Place> place_of(std::string_view tensor, const io::AdapterFile& file) {
  constexpr std::string_view kBefore = "blk.", kBehind = ".weight";
  const auto refused = [&] {
    return fail("{}: it adapts {}; kvick adapts the matrices {} of layers without experts",
                file.path, tensor, fmt::join(kMatrices, ", "));
  };
  if (!tensor.starts_with(kBefore) || !tensor.ends_with(kBehind)) return refused();
  std::string_view rest = tensor.substr(kBefore.size());
  Place place;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), place.layer);
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  if (error != std::errc() || rest.size() <= kBehind.size() || rest.front() != '.')
    return refused();
  place.matrix = rest.substr(1, rest.size() - 1 - kBehind.size());
  if (std::find(std::begin(kMatrices), std::end(kMatrices), place.matrix) == std::end(kMatrices))
    return refused();
  return place;
}

// Returns the shape of the model's matrix, [outputs, inputs]. The matrix must be a linear layer by
// itself.
base::Result<std::vector<uint64_t>> matrix_shape(const Place& place, const io::AdapterFile& file,
                                                 const Model& model) {
  const Config& config = model.config();
  const std::string tensor = place.tensor(place.matrix);
  if (place.layer >= config.layer_count())
    return fail("{}: it adapts {}, but {} has {} layers: it is another model's adapter", file.path,
                tensor, config.name, config.layer_count());
  const LayerConfig& layer = config.layers[place.layer];
  if (place.is_ffn() && layer.experts.count > 0)
    return fail("{}: it adapts {}, and kvick adapts no matrices of experts", file.path, tensor);
  const bool fused =
      place.is_ffn()
          ? place.matrix == "ffn_up" && model.shape_of(tensor).size() == 2 &&
                model.shape_of(tensor)[0] != layer.ffn
          : !model.shape_of(place.tensor("attn_qkv")).empty() && place.matrix != "attn_output";
  if (fused)
    return fail(
        "{}: it adapts {}, which this model has in one matrix with others, and kvick "
        "adapts no such matrix",
        file.path, tensor);
  const bool unread = (place.matrix == "attn_k" || place.matrix == "attn_v") && !layer.owns_rows();
  std::vector<uint64_t> shape = model.shape_of(tensor);
  if (shape.size() != 2 || unread)
    return fail("{}: it adapts {}, which {} does not have: it is another model's adapter",
                file.path, tensor, config.name);
  return shape;
}

// Returns how RoPE pairs the rows of an adapter's q and k: two adjacent rows, or else row i of a
// head's first half with row i of its second.
bool rotates_neighbours(const io::AdapterFile& file, const Config& config) {
  if (file.from_gguf()) {
    const Family* const family = find_family(config.arch);
    return family != nullptr && family->interleaved;
  }
  const auto all = io::hf_families();
  return std::any_of(all.begin(), all.end(), [&](const io::HfFamily& family) {
    return family.architecture == config.arch && family.interleaved;
  });
}

// Returns, for each row of the model's matrix, the row of the file's B.
std::vector<uint32_t> rows_of(const Place& place, uint32_t outputs, const io::AdapterFile& file,
                              const Config& config) {
  std::vector<uint32_t> rows(outputs);
  for (uint32_t row = 0; row < outputs; ++row) rows[row] = row;
  const bool turns = place.matrix == "attn_q" || place.matrix == "attn_k";
  if (!turns || config.ropes.empty()) return rows;
  const bool neighbours = config.ropes.front().interleaved;
  if (neighbours == rotates_neighbours(file, config)) return rows;
  const uint32_t dim = config.layers[place.layer].k_dim, half = dim / 2;
  for (uint32_t head = 0; head + dim <= outputs; head += dim)
    for (uint32_t i = 0; i < dim; ++i)
      rows[head + i] = head + (neighbours ? i / 2 + i % 2 * half
                               : i < half ? 2 * i
                                          : 2 * (i - half) + 1);
  return rows;
}

// A matrix whose elements were multiplied by 1 / factor, a power of two that brings the largest
// element to about 2^14. Rounding to float16 then loses nothing that BF16 or F16 had, except in the
// smallest elements.
struct Scaled {
  std::vector<float> values;
  float factor = 1;
};

Scaled read_scaled(const io::Tensor& tensor) {
  Scaled scaled = {.values = std::vector<float>(tensor.elements())};
  tensor.read_floats(scaled.values.data());
  float most = 0;
  for (const float value : scaled.values) most = std::max(most, std::abs(value));
  if (most == 0 || !std::isfinite(most)) return scaled;
  const int power = std::clamp(14 - std::ilogb(most), -60, 60);
  for (float& value : scaled.values) value = std::ldexp(value, power);
  scaled.factor = std::ldexp(1.0F, -power);
  return scaled;
}

base::Status<> check_layer(const io::AdapterPair& pair, std::span<const uint64_t> shape,
                           const std::string& path) {
  if (pair.a.shape[1] == shape[1] && pair.b.shape[0] == shape[0]) return base::Done{};
  return fail(
      "{}: for {} it has [{}] and [{}], which do not fit the model's [{}]: it is another model's "
      "adapter",
      path, pair.matrix, fmt::join(pair.a.shape, ", "), fmt::join(pair.b.shape, ", "),
      fmt::join(shape, ", "));
}

// Returns the bytes of all matrices. They share one block of memory, which has huge pages if it is
// large.
size_t memory_for(const io::AdapterFile& file) {
  size_t bytes = 0;
  for (const io::AdapterPair& pair : file.pairs)
    bytes += (pair.a.elements() + pair.b.elements()) * sizeof(uint16_t) + 2 * base::kCacheLine;
  return bytes;
}

// rows: for each row of the model's matrix, the row of the file's B.
LowRank convert_layer(const io::AdapterPair& pair, std::span<const uint32_t> rows,
                      base::Arena& memory) {
  const Scaled a = read_scaled(pair.a), b = read_scaled(pair.b);
  LowRank layer = {.rank = static_cast<uint32_t>(pair.a.shape[0]),
                   .inputs = static_cast<uint32_t>(pair.a.shape[1]),
                   .outputs = static_cast<uint32_t>(pair.b.shape[0]),
                   .factor = pair.factor * a.factor * b.factor,
                   .a = memory.make<uint16_t>(a.values.size()),
                   .b = memory.make<uint16_t>(b.values.size())};
  std::transform(a.values.begin(), a.values.end(), layer.a.begin(), kernels::f32_to_f16);
  for (uint32_t row = 0; row < layer.outputs; ++row) {
    const uint32_t piece = row / LowRank::kPiece, at = row % LowRank::kPiece;
    for (uint32_t r = 0; r < layer.rank; ++r)
      layer.piece(piece)[size_t{r} * layer.outputs_of(piece) + at] =
          kernels::f32_to_f16(b.values[size_t{rows[row]} * layer.rank + r]);
  }
  return layer;
}

}  // namespace

base::Result<Adapter> Adapter::read(const io::AdapterFile& file, const Model& model) {
  const Config& config = model.config();
  if (model.ranks() != nullptr)
    return fail("{}: adapters are computed by one process: leave out --ranks", file.path);
  if (!file.architecture.empty() && file.architecture != config.arch)
    return fail("{}: an adapter for models of the architecture {}, and {} is of {}", file.path,
                file.architecture, config.name, config.arch);
  // PEFT's updates are of the weights before the factors of Falcon-H1's config; GGUF files, and
  // folders as kvick reads them, have the product.
  if (config.arch == "falcon-h1" && !file.from_gguf())
    return fail(
        "{}: {} has factors in its weights that this adapter's updates lack: merge the adapter "
        "into the model with PEFT",
        file.path, config.name);
  Adapter adapter;
  adapter.memory_ = base::Arena(memory_for(file));
  for (const io::AdapterPair& pair : file.pairs) {
    KVICK_TRY(const Place place, place_of(pair.matrix, file));
    KVICK_TRY(const std::vector<uint64_t> shape, matrix_shape(place, file, model));
    KVICK_TRY_VOID(check_layer(pair, shape, file.path));
    const std::vector<uint32_t> rows =
        rows_of(place, static_cast<uint32_t>(shape[0]), file, config);
    // Uses the model's own tensor name, because the file may write a layer's number as 00.
    if (!adapter.layers_
             .emplace(place.tensor(place.matrix), convert_layer(pair, rows, adapter.memory_))
             .second)
      return fail("{}: {} is adapted twice", file.path, pair.matrix);
  }
  return adapter;
}

}  // namespace kvick::model
