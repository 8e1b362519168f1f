#include "plan/forecast/rank_share.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "model/core/share.h"

namespace kvick::plan {
namespace {

class LoneRank final : public model::Ranks {
 public:
  explicit LoneRank(unsigned ranks) : Ranks(0, ranks) {}

  float* part(size_t count) override {
    if (part_.size() < count) part_.resize(count);
    return part_.data();
  }
  const float* sum() override { return part_.data(); }
  void gather(std::span<const float>, Take) override {}
  void give_up() override {}
  void pass_on(Passed) override {}
  Passed take_over() override { throw base::Bug("nobody is before a lone rank"); }
  void tell(std::span<const std::byte>) override {}
  std::vector<std::byte> hear() override { throw base::Bug("a rank that leads hears nothing"); }
  void answer(std::span<const std::byte>) override {}
  std::vector<std::vector<std::byte>> answers(bool) override { return {}; }
  void deal(std::span<const std::span<const std::byte>>) override {}
  std::vector<std::byte> dealt() override { return hear(); }

 private:
  std::vector<float> part_;
};

// Returns the number at the beginning of the text, and the rest.
base::Result<std::pair<double, std::string_view>> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0)
    return base::fail("\"{}\" does not begin with a number", text);
  return std::pair(value, text.substr(static_cast<size_t>(end - text.data())));
}

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kRates[] = {{"Gb/s", 1e9}, {"Mb/s", 1e6}};
constexpr Unit kTimes[] = {{"us", 1e-6}, {"ms", 1e-3}};

base::Result<double> value_of(std::string_view text, std::span<const Unit> units) {
  KVICK_TRY(const auto number, number_of(text));
  for (const Unit& unit : units)
    if (number.second == unit.name) return number.first * unit.factor;
  return base::fail("\"{}\" is neither {} nor {}", number.second, units[0].name, units[1].name);
}

std::vector<model::FfnShape> ffn_shapes_of(const ModelSize& whole) {
  const auto find = [&](std::string_view name) -> const io::Tensor* {
    const auto found = std::ranges::find(whole.tensors, name, &io::Tensor::name);
    return found != whole.tensors.end() ? &*found : nullptr;
  };
  return model::ffn_shapes(whole.config, find);
}

// The messages of a step: its beginning, the answers to that, and the batch.
constexpr double kMessages = 3;

double bits_of_floats(double floats) { return 32 * floats; }

// Returns the seconds until every rank has the sum of all parts. Each rank sends its part to each
// other one or, if parts are long, first slices to be summed and then a summed slice.
double sum_s(unsigned ranks, const Network& network, uint64_t floats) {
  const double others = ranks - 1, bit_s = network.bits_s > 0 ? 1 / network.bits_s : 0;
  const double bits = 8 * static_cast<double>(model::wire_bytes(network.format, floats));
  constexpr uint64_t kWhole = 4096;  // as model::MessageRanks decides
  if (ranks == 2 || floats <= kWhole) return network.latency_s + others * bits * bit_s;
  return 2 * (network.latency_s + others / ranks * bits * bit_s);
}

}  // namespace

base::Result<Network> parse_network(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == text.npos)
    return base::fail("--network: \"{}\" is no rate and latency such as 10Gb/s,30us", text);
  Network network;
  const auto rate = value_of(text.substr(0, comma), kRates);
  const auto latency = value_of(text.substr(comma + 1), kTimes);
  if (!rate.ok() || !latency.ok() || *rate == 0)
    return base::fail("--network: {}; say it as in 10Gb/s,30us", !rate.ok() ? rate.error().message
                                                                 : !latency.ok()
                                                                     ? latency.error().message
                                                                     : "a rate of 0");
  return Network{.bits_s = *rate, .latency_s = *latency};
}

std::unique_ptr<model::Ranks> lone_rank(unsigned ranks) {
  return std::make_unique<LoneRank>(ranks);
}

base::Result<ModelSize> size_of_share(const ModelSize& whole, unsigned ranks) {
  KVICK_TRY(const model::Share share,
            model::share_of(whole.config, ffn_shapes_of(whole), 0, ranks));
  ModelSize own = whole;
  own.config = model::config_of(whole.config, share);
  // Weights are divided about evenly over the ranks.
  for (std::vector<TypedWeights>* const part : {&own.layers, &own.experts, &own.output})
    for (TypedWeights& weights : *part) weights.weights /= ranks;
  return own;
}

double network_s(const model::Config& config, unsigned ranks, const Network& network,
                 uint32_t tokens, uint32_t wanted) {
  const double sums =
      2.0 * config.layer_count() * sum_s(ranks, network, uint64_t{tokens} * config.dim);
  // The share of the logits that rank 0 receives from the others.
  const double others = static_cast<double>(ranks - 1) / ranks;
  const double logits =
      wanted == 0
          ? 0
          : network.latency_s + bits_of_floats(others * wanted * config.vocab) / network.bits_s;
  return sums + kMessages * network.latency_s + logits;
}

base::Result<std::vector<double>> stages_of(const ModelSize& whole, unsigned ranks) {
  std::vector<double> stages;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    KVICK_TRY(const model::Share share,
              model::stage_of(whole.config, ffn_shapes_of(whole), rank, ranks));
    stages.push_back(static_cast<double>(share.layers.size()) / whole.config.layer_count());
  }
  return stages;
}

uint64_t stage_bytes(const ModelSize& whole, std::span<const double> stages) {
  ModelSize part = whole;
  part.output.clear();
  const auto layers = static_cast<double>(packed_bytes(part));
  const double output = static_cast<double>(packed_bytes(whole)) - layers;
  double most = stages.back() * layers + output;
  for (const double stage : stages) most = std::max(most, stage * layers);
  return static_cast<uint64_t>(most);
}

double pipeline_s(const model::Config& config, std::span<const double> stages,
                  const Network& network, const PiecesOfStep& step, uint32_t wanted) {
  const double sent = bits_of_floats(double{1} * step.tokens * config.dim) / network.bits_s;
  double first = 0, slowest = 0;
  for (size_t rank = 0; rank < stages.size(); ++rank) {
    const bool last = rank + 1 == stages.size();
    const double own = stages[rank] * step.layers_s + (last ? step.output_s : 0);
    first += own + (last ? 0 : network.latency_s + sent);
    slowest = std::max(slowest, own + sent);
  }
  // The last rank sends rank 0 the logits, or a word that the step succeeded.
  const double answer =
      network.latency_s + bits_of_floats(double{1} * wanted * config.vocab) / network.bits_s;
  return first + (step.pieces - 1) * slowest + kMessages * network.latency_s + answer;
}

}  // namespace kvick::plan
