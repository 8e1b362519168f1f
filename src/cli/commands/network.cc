// kvick network: measures the network between the processes that mpirun has started, in the form
// that kvick plan takes.

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/options/print_json.h"
#include "cli/options/ranks.h"
#include "model/ranks/ranks.h"

namespace kvick::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Floats of a sum: the smallest, for the latency; a short one, as of one token; and a long one, as
// of a prompt.
constexpr size_t kLeast = 16, kShort = 1024, kLong = 262144;
constexpr int kSums = 400, kLongSums = 20;
// Bytes read between two sums, as ranks read weights: a sum then finds none of its code and data in
// the caches, and the ranks do not arrive at the same moment.
constexpr size_t kWeightBytes = size_t{2} << 20;

class Meter {
 public:
  explicit Meter(model::Ranks& ranks) : ranks_(ranks), weights_(kWeightBytes / sizeof(uint64_t)) {}

  // Returns, on rank 0, the seconds of one sum of `floats` floats: the wait averaged over all
  // ranks, and the median over `times` sums. A late rank waits less by its delay and the others
  // wait more, so delays average out over ranks and sums.
  double sum_s(size_t floats, int times) {
    std::vector<float> waited;
    for (int i = 0; i < times; ++i) {
      uint64_t read = 0;
      for (const uint64_t word : weights_) read += word;
      weights_[0] = read;
      std::fill_n(ranks_.part(floats), floats, 1.0F);
      const Clock::time_point began = Clock::now();
      ranks_.sum();
      waited.push_back(std::chrono::duration<float>(Clock::now() - began).count());
    }
    std::vector<float> all = waited;
    ranks_.gather(waited, [&](unsigned, std::span<const float> others) {
      for (size_t i = 0; i < all.size(); ++i) all[i] += others[i];
    });
    const auto middle = all.begin() + times / 2;
    std::ranges::nth_element(all, middle);
    return *middle / ranks_.size();
  }

 private:
  model::Ranks& ranks_;
  std::vector<uint64_t> weights_;
};

base::Result<int> measure(EngineFlags flags, const Common& common) {
  flags.ranks = true;
  KVICK_TRY(RankStart start, start_ranks(flags, common));
  model::Ranks& ranks = *start.ranks;
  if (ranks.size() < 2)
    return base::fail(
        "kvick network needs at least two processes: mpirun -np 2 -H one:1,two:1 kvick network");
  Meter meter(ranks);
  // The latency is measured by itself. What remained of a short sum after its transfer time was
  // zero where other programs slowed the long sums down.
  const double latency = meter.sum_s(kLeast, kSums), shorter = meter.sum_s(kShort, kSums);
  const double longer = meter.sum_s(kLong, kLongSums);
  const double each = std::max(1e-12, longer - shorter) / (kLong - kShort);
  const double bits_s = 8 * sizeof(float) / each;
  if (!ranks.leads()) {
    (void)ranks.hear();  // waits for rank 0's message that ends the run
  } else if (common.json) {
    const nlohmann::ordered_json found = {{"bits_s", bits_s}, {"latency_s", latency}};
    print_json(found);
  } else {
    fmt::print("--network {:.3f}Gb/s,{:.1f}us\n", bits_s / 1e9, 1e6 * latency);
  }
  return 0;
}

}  // namespace

void add_network(const Command& app, const Common& common) {
  const Command command = app.add_command("network",
                                          "measure the network between the processes that mpirun "
                                          "has started, in the form that kvick plan "
                                          "--network takes it: mpirun -np 2 kvick network");
  auto flags = std::make_shared<EngineFlags>();
  command.runs([&common, flags] { return measure(*flags, common); });
}

}  // namespace kvick::cli
