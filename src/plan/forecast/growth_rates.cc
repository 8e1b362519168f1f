#include "plan/forecast/growth_rates.h"

#include <algorithm>
#include <memory>

#include "kv/strategy/ranges.h"
#include "plan/forecast/attention_block.h"

namespace kvick::plan {
namespace {

constexpr uint32_t kSizes = 8;
constexpr uint64_t kMostBytes = uint64_t{128} << 20;
// Measurements per point; the fastest counts. In each round a cache grows this many times, by a few
// rows, at each of its eight sizes: as in use, the memory that one growth gives back serves the
// next one. The first growth after many rows at once gets memory that the system must clear.
constexpr int kRounds = 2;
constexpr uint32_t kGrowthsAtOnce = 3;
constexpr uint32_t kMostAdded = 64;  // rows that one growth adds
// Lower bound for a fitted line's slope: noise must not make a rate infinite.
constexpr double kLeastSecondsPerByte = 1e-13;

struct Points {
  std::vector<double> bytes, growth_s, attend_s;  // per growth
};

void keep_least(std::vector<double>& all, size_t i, double value) {
  if (i == all.size()) all.push_back(value);
  all[i] = std::min(all[i], value);
}

// unit: rows between the sizes that are measured; added: rows that one growth adds; step: rows of a
// step's attention, at most as many.
struct Rows {
  uint32_t unit, added, step;
};

base::Status<kv::Shortage> grow_once(AttentionBlock& block, kv::Store& store, Rows rows,
                                     Points& points) {
  const kv::SeqId seq = store.open({}).seq;
  for (uint32_t i = 0; i < kSizes; ++i) {
    for (uint32_t growth = 0; growth < kGrowthsAtOnce; ++growth) {
      BlockSeconds grown, attended;
      KVICK_TRY_VOID(block.step({&seq, 1}, rows.step, grown, false));
      // The same step again does not grow, compile or touch memory for the first time.
      KVICK_TRY_VOID(block.step({&seq, 1}, rows.step, attended, false));
      KVICK_TRY_VOID(block.fill({&seq, 1}, rows.added));
      keep_least(points.growth_s, i, std::max(0.0, grown.begin - attended.begin));
      keep_least(points.attend_s, i, attended.attend);
    }
    KVICK_TRY_VOID(block.fill({&seq, 1}, rows.unit - kGrowthsAtOnce * rows.added));
  }
  store.close(seq);
  return base::Done{};
}

}  // namespace

Line fit_line(std::span<const double> x, std::span<const double> y) {
  const auto n = static_cast<double>(x.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sx += x[i];
    sy += y[i];
    sxx += x[i] * x[i];
    sxy += x[i] * y[i];
  }
  const double spread = n * sxx - sx * sx;
  if (spread <= 0) return {.at_zero = n > 0 ? sy / n : 0, .slope = 0};
  const double slope = (n * sxy - sx * sy) / spread;
  return {.at_zero = (sy - slope * sx) / n, .slope = slope};
}

void set_any_ranges(kv::Setup& setup) {
  const kv::Shape& shape = setup.shape;
  if (!kernels::is_static(shape.k_type) && !kernels::is_static(shape.v_type)) return;
  const std::vector<float> ones(size_t{shape.layers} * shape.kv_heads, 1.0F);
  setup.ranges = std::make_shared<kv::StaticRanges>(kv::StaticRanges{.k = ones, .v = ones});
}

base::Result<kv::GrowthRates> measure_growth(const model::Config& config, const kv::Setup& setup,
                                             model::Workspace& workspace, base::Clock clock,
                                             uint32_t rows) {
  const uint64_t token_bytes = kv::info_of({.name = "bmc", .options = {}}, setup).token_bytes();
  const auto most =
      std::min<uint64_t>(setup.shape.max_tokens, kMostBytes / std::max<uint64_t>(1, token_bytes));
  const uint32_t part = static_cast<uint32_t>(most) / kSizes;
  const uint32_t added = std::clamp<uint32_t>(part / kGrowthsAtOnce, 1, kMostAdded);
  const uint32_t unit = std::max<uint32_t>(kGrowthsAtOnce, part / added) * added;
  kv::Setup own = setup;
  own.tier.spec.reset();
  own.shape.max_tokens = unit * kSizes;
  set_any_ranges(own);
  own.select.spec = {};  // growth depends on the layout only; the rates are for reading all rows
  KVICK_TRY(const std::unique_ptr<kv::Store> store,
            kv::make_store({.name = "bmc", .options = {{"r", std::to_string(added)}}}, own));
  AttentionBlock block(config, *store, workspace, clock);
  Points points;
  for (uint32_t i = 0; i < kSizes; ++i)  // the bytes after the second of three growths
    points.bytes.push_back(static_cast<double>(store->info().used_bytes(i * unit + 2 * added)));
  for (int round = 0; round < kRounds; ++round)
    if (auto done = grow_once(block, *store, {unit, added, std::min(rows, added)}, points);
        !done.ok())
      return base::fail("no room to measure what growing the cache takes: {}", done.error().what);
  const Line growth = fit_line(points.bytes, points.growth_s);
  const Line attend = fit_line(points.bytes, points.attend_s);
  return kv::GrowthRates{
      .copy_bytes_s = 1 / std::max(kLeastSecondsPerByte, growth.slope),
      .growth_s = std::max(0.0, growth.at_zero),
      .attention_bytes_s =
          workspace.library == nullptr ? 0 : 1 / std::max(kLeastSecondsPerByte, attend.slope)};
}

}  // namespace kvick::plan
