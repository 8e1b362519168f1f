#include "model/core/share.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "kernels/formats/matrix.h"

namespace kvick::model {
namespace {

// Returns the first of `count` things that belongs to a rank. Earlier ranks get one more if the
// division leaves a remainder.
uint32_t first_of(uint32_t count, unsigned rank, unsigned ranks) {
  return static_cast<uint32_t>((uint64_t{count} * rank + ranks - 1) / ranks);
}

// Weights of a layer that keeps a state: of the projections of its inputs, and back.
double state_weights(const LayerConfig& layer, uint32_t dim) {
  const StateConfig& state = layer.state;
  if (state.kind == StateConfig::Kind::kNone) return 0;
  if (state.kind == StateConfig::Kind::kShortConv) return double{4} * dim * state.conv_channels;
  return double{1} * dim * (state.conv_channels + 2 * state.inner() + 2 * state.heads);
}

// Weights of one KV head, with the query heads that read it.
double head_weights(const LayerConfig& layer, uint32_t dim) {
  if (const LatentConfig& l = layer.latent; layer.is_latent()) {
    const double q = double{1} * layer.heads * (l.plain + l.rotated);
    const double heads = double{1} * layer.heads * l.rank * (l.plain + l.v_dim);
    const double out = double{1} * layer.heads * l.v_dim * dim;
    return (l.q_rank > 0 ? l.q_rank * (dim + q) : dim * q) + dim * l.row() + heads + out;
  }
  const double kv = layer.owns_rows() ? layer.k_dim + layer.v_dim : 0;
  return dim * (layer.group() * (layer.k_dim + layer.v_dim) + kv);
}

// Returns the width that ranks divide: that of the feed-forward block or of each expert.
uint32_t width_of(const LayerConfig& layer) {
  return layer.experts.count > 0 ? layer.experts.ffn : layer.ffn;
}

// Returns where the part of the shared expert's width of `rank` begins.
uint32_t first_shared(const LayerConfig& layer, const FfnShape& ffn, unsigned rank,
                      unsigned ranks) {
  const uint32_t width = layer.experts.shared_ffn;
  return std::min(width, first_of((width + ffn.shared_unit - 1) / ffn.shared_unit, rank, ranks) *
                             ffn.shared_unit);
}

// Returns where the width of `rank` begins, in units of ffn.unit. It is chosen so that the ranks
// before it get their share of all weights that a token is multiplied with, including heads and
// shared expert.
uint32_t first_unit(const LayerConfig& layer, const FfnShape& ffn, uint32_t dim, unsigned rank,
                    unsigned ranks) {
  const uint32_t units = width_of(layer) / ffn.unit;
  const double column = double{1} * dim * ffn.matrices;
  const double unit = column * ffn.unit * std::max(1U, layer.experts.used);
  const double head = head_weights(layer, dim);
  const double all = head * layer.kv_heads + unit * units + column * layer.experts.shared_ffn;
  const double before = all * rank / ranks - head * first_of(layer.kv_heads, rank, ranks) -
                        column * first_shared(layer, ffn, rank, ranks);
  const auto begin = static_cast<int64_t>(std::floor(before / unit + 0.5));
  // Every rank has at least one unit.
  return static_cast<uint32_t>(std::clamp<int64_t>(begin, rank, units - (ranks - rank)));
}

// Checks whether ranks can divide the model at all.
base::Status<> check_model(const Config& config) {
  // Two layers of the config are one layer of the file (read_falcon_states).
  if (config.arch == "falcon-h1")
    return base::fail(
        "each layer of {} keeps rows and a state, which runs in one process: leave --ranks out",
        config.arch);
  if (config.layer_inputs == 0) return base::Done{};
  return base::fail(
      "{}: each layer has inputs of its own for every token, which one process looks up: leave "
      "--ranks and --pipeline out",
      config.arch);
}

// Checks whether each rank can have a part of the layer.
base::Status<> check_parts(const Config& config, uint32_t layer) {
  using Kind = LayerConfig::Kind;
  switch (config.layers[layer].kind) {
    case Kind::kAttention:
      return base::Done{};
    case Kind::kSlots:
      return base::fail("layer {} of {} has a memory of slots, which runs in one process", layer,
                        config.arch);
    case Kind::kState:
    case Kind::kFeedForward:
      break;
  }
  return base::fail(
      "{} has layers that keep a state, of which --ranks divides none: use --pipeline, which gives "
      "each rank some layers",
      config.arch);
}

// Checks whether each rank can have some of the layers.
base::Status<> check_layers(const Config& config) {
  for (uint32_t layer = 0; layer < config.layer_count(); ++layer)
    if (config.layers[layer].kind == LayerConfig::Kind::kSlots) return check_parts(config, layer);
  return base::Done{};
}

// Returns the layers where a rank may begin: no layer from there on reads the rows of an earlier
// one.
std::vector<uint32_t> cuts_of(const Config& config) {
  std::vector<uint32_t> cuts;
  uint32_t reads_from = config.layer_count();  // least rows_of from here on
  for (uint32_t layer = config.layer_count(); layer-- > 1;) {
    reads_from = std::min(reads_from, config.layers[layer].rows_of);
    if (reads_from >= layer) cuts.push_back(layer);
  }
  std::ranges::reverse(cuts);
  return cuts;
}

// Returns the weights of the layers before each layer, followed by those of all layers.
std::vector<double> weights_before(const Config& config, std::span<const FfnShape> ffn) {
  std::vector<double> before = {0};
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    const LayerConfig& layer = config.layers[i];
    // Only the experts that one token uses count, because decoding reads only those.
    const ExpertsConfig& experts = layer.experts;
    const double rows = layer.ffn + double{1} * experts.used * experts.ffn + experts.shared_ffn;
    const double width = config.dim * ffn[i].matrices * rows;
    before.push_back(before.back() + head_weights(layer, config.dim) * layer.kv_heads +
                     state_weights(layer, config.dim) + width);
  }
  return before;
}

}  // namespace

std::vector<FfnShape> ffn_shapes(const Config& config,
                                 base::FunctionRef<const io::Tensor*(std::string_view)> find) {
  std::vector<FfnShape> shapes;
  // Returns the largest block size of these tensors' types: slices of their inputs must be
  // multiples of it.
  const auto unit_of = [&](uint32_t layer, std::initializer_list<std::string_view> names) {
    uint32_t unit = kernels::kGroup;
    for (const std::string_view name : names)
      if (const io::Tensor* const tensor = find(fmt::format("blk.{}.{}.weight", layer, name)))
        unit = std::max(unit, kernels::dtype_info(tensor->dtype).block);
    return unit;
  };
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    const bool gated = config.layers[i].experts.count > 0 ||
                       find(fmt::format("blk.{}.ffn_gate.weight", i)) != nullptr;
    shapes.push_back({.unit = unit_of(i, {"ffn_down", "ffn_down_exps", "ffn_down.0"}),
                      .matrices = gated ? 3U : 2U,
                      .shared_unit = unit_of(i, {"ffn_down_shexp"})});
  }
  return shapes;
}

Slice kv_heads_of(uint32_t kv_heads, unsigned rank, unsigned ranks) {
  return {kv_heads, first_of(kv_heads, rank, ranks), first_of(kv_heads, rank + 1, ranks)};
}

Share whole_share(const Config& config) {
  Share share;
  for (const LayerConfig& layer : config.layers) share.layers.emplace_back(layer);
  share.vocab = config.vocab;
  if (config.both_ways()) share.vocab = {config.vocab, 0, 0};  // an encoder has no output layer
  return share;
}

base::Result<Share> share_of(const Config& config, std::span<const FfnShape> ffn, unsigned rank,
                             unsigned ranks) {
  Share share = whole_share(config);
  share.adds_biases = rank == 0;
  KVICK_TRY_VOID(check_model(config));
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    const LayerConfig& layer = config.layers[i];
    KVICK_TRY_VOID(check_parts(config, i));
    if (layer.is_latent())
      return base::fail(
          "{} ranks were started, but in layer {} all heads read one latent row, which --ranks "
          "cannot divide: use --pipeline",
          ranks, i);
    if (layer.kv_heads < ranks)
      return base::fail(
          "{} ranks were started, but layer {} has {} KV heads, and each rank needs one: start at "
          "most {}",
          ranks, i, layer.kv_heads, layer.kv_heads);
    const uint32_t width = width_of(layer);
    if (width % ffn[i].unit != 0 || width / ffn[i].unit < ranks)
      return base::fail(
          "{} ranks were started, but the {} of layer {}, {}, can only be cut at multiples of {}: "
          "start fewer, or use --pipeline",
          ranks, layer.experts.count > 0 ? "width of the experts" : "feed-forward width", i, width,
          ffn[i].unit);
    LayerShare& own = share.layers[i];
    own.kv_heads = kv_heads_of(layer.kv_heads, rank, ranks);
    const auto begin = [&](unsigned r) {
      return r == ranks ? width : first_unit(layer, ffn[i], config.dim, r, ranks) * ffn[i].unit;
    };
    own.ffn = {width, begin(rank), begin(rank + 1)};
    own.shared_ffn = {layer.experts.shared_ffn, first_shared(layer, ffn[i], rank, ranks),
                      first_shared(layer, ffn[i], rank + 1, ranks)};
  }
  const uint32_t panels = (config.vocab + kernels::kPanel - 1) / kernels::kPanel;
  if (panels < ranks)
    return base::fail("{} ranks were started for a vocabulary of {}", ranks, config.vocab);
  const auto row = [&](unsigned r) {
    return std::min(config.vocab, first_of(panels, r, ranks) * kernels::kPanel);
  };
  share.vocab = {config.vocab, row(rank), row(rank + 1)};
  return share;
}

base::Result<Share> stage_of(const Config& config, std::span<const FfnShape> ffn, unsigned rank,
                             unsigned ranks) {
  KVICK_TRY_VOID(check_model(config));
  KVICK_TRY_VOID(check_layers(config));
  if (config.layer_count() < ranks)
    return base::fail("{} ranks were started, but {} has {} layers: start at most {}", ranks,
                      config.arch, config.layer_count(), config.layer_count());
  const std::vector<uint32_t> cuts = cuts_of(config);
  if (cuts.size() + 1 < ranks)
    return base::fail(
        "{} ranks were started, but the {} layers of {} can be divided among {} at most, since "
        "some read each other's keys and values: start at most {}",
        ranks, config.layer_count(), config.arch, cuts.size() + 1, cuts.size() + 1);
  const std::vector<double> before = weights_before(config, ffn);
  const double all = before.back() + double{1} * config.dim * config.vocab;
  std::vector<uint32_t> begin = {0};
  size_t next = 0;  // index in cuts
  for (unsigned r = 1; r < ranks; ++r) {
    const auto off = [&](size_t cut) { return std::abs(before[cuts[cut]] - all * r / ranks); };
    const size_t last = cuts.size() - (ranks - r);  // the remaining ranks need one cut each
    while (next < last && off(next + 1) <= off(next)) ++next;
    begin.push_back(cuts[next++]);
  }
  begin.push_back(config.layer_count());
  Share share = whole_share(config);
  share.first_layer = begin[rank];
  share.layers = {share.layers.begin() + begin[rank], share.layers.begin() + begin[rank + 1]};
  share.embeds = rank == 0;
  if (rank + 1 < ranks) share.vocab = {config.vocab, 0, 0};
  return share;
}

// A rank waits before the first piece arrives and after its last piece: with P pieces on R ranks it
// computes P / (P + R - 1) of the time. More pieces cost more, because weights are read once for
// each piece, which takes as long as multiplying about eight tokens.
uint32_t piece_tokens(uint32_t tokens, unsigned ranks) {
  constexpr uint32_t kPiecesOfRank = 4, kLeastTokens = 8;
  return std::max(kLeastTokens, (tokens + kPiecesOfRank * ranks - 1) / (kPiecesOfRank * ranks));
}

Config config_of(Config config, const Share& share) {
  const auto first = config.layers.begin() + share.first_layer;
  config.layers = {first, first + static_cast<ptrdiff_t>(share.layers.size())};
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    LayerConfig& layer = config.layers[i];
    if (!layer.owns_rows()) layer.rows_of -= share.first_layer;
    const uint32_t group = layer.group();
    layer.kv_heads = share.layers[i].kv_heads.size;
    layer.heads = layer.kv_heads * group;
    (layer.experts.count > 0 ? layer.experts.ffn : layer.ffn) = share.layers[i].ffn.size;
    layer.experts.shared_ffn = share.layers[i].shared_ffn.size;
  }
  return config;
}

}  // namespace kvick::model
