// prefix: the share of a trace's prompts that the prefix cache serves with a given amount of
// memory, beside the best possible for a cache of that size. Rows are written, but nothing is
// computed.

#include <map>

#include "kv/registry/registry.h"
#include "lab/core/experiment.h"
#include "lab/data/block_cache.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

// A block of the trace is one block here; its number of tokens does not affect the result.
constexpr uint32_t kBlockTokens = 16;
constexpr kv::Shape kShape = {
    .layers = 1, .kv_heads = 1, .head_dim = 16, .max_tokens = 1024 * kBlockTokens};
// Memory, as a share of all distinct blocks of the trace.
constexpr double kShares[] = {0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1};
constexpr const char* kEvictions[] = {"lru", "lfu"};

std::vector<kv::Token> tokens_of(const BlockRequest& request) {
  std::vector<kv::Token> tokens;
  for (const uint64_t block : request.blocks)
    for (uint32_t i = 0; i < kBlockTokens; ++i)
      // The first two tokens hold the block's id; the others need not differ.
      tokens.push_back(static_cast<kv::Token>(i == 0   ? block & 0x7fffffff
                                              : i == 1 ? block >> 31
                                                       : 0));
  return tokens;
}

class Prefix final : public Experiment {
 public:
  explicit Prefix(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(requests_, read_blocks(bench_.file));
    // The first ones: hits depend on the order of requests.
    if (bench_.prompts != 0 && bench_.prompts < requests_.size()) requests_.resize(bench_.prompts);
    std::map<uint64_t, bool> names;
    for (const BlockRequest& one : requests_) {
      if (one.blocks.size() * kBlockTokens > kShape.max_tokens)
        return base::fail("a prompt of {} blocks, where {} are the most", one.blocks.size(),
                          kShape.max_tokens / kBlockTokens);
      for (const uint64_t block : one.blocks) names[block] = true;
      blocks_ += one.blocks.size();
    }
    std::vector<Cell> cells;
    for (const double share : kShares)
      for (const char* eviction : kEvictions)
        cells.push_back({.key = fmt::format("{} {}", share, eviction),
                         .what = {{"share", share},
                                  {"evict", eviction},
                                  {"blocks", capacity(share, names.size())},
                                  {"requests", requests_.size()}}});
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    kv::Setup setup;
    setup.shape = kShape;
    setup.compute.store_row = bench_.kernels.store_row;
    const auto capacity = cell.what["blocks"].get<uint64_t>();
    setup.limits.max_bytes = capacity * kBlockTokens * kShape.token_bytes();
    const kv::Spec spec = {.name = "paged",
                           .options = {{"block", std::to_string(kBlockTokens)},
                                       {"evict", cell.what["evict"].get<std::string>()}}};
    KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(spec, setup));
    uint64_t cached = 0;
    for (const BlockRequest& request : requests_) {
      KVICK_TRY(const uint32_t tokens, serve(*store, tokens_of(request)));
      cached += tokens / kBlockTokens;
    }
    const auto rate = [&](uint64_t served) {
      return static_cast<double>(served) / static_cast<double>(blocks_);
    };
    return Json{{"hit_rate", rate(cached)},
                {"oldest", rate(served_blocks(requests_, capacity, Replacement::kOldest))},
                {"foreseen", rate(served_blocks(requests_, capacity, Replacement::kForesees))}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Blocks of {} prompts that were there when they were asked "
                                        "for, by memory; ideal: the oldest goes, and what is "
                                        "needed last goes, which nobody can know",
                                        requests_.size()),
                   .columns = {"memory", "blocks", "eviction", "hits %", "ideal, oldest %",
                               "ideal, foreseeing %"},
                   .rows = {}};
    Chart chart = {.name = "prefix",
                   .title = "Blocks of prompts that the prefix cache serves",
                   .x_label = "memory, as a share of all blocks of the trace",
                   .y_label = "% of blocks",
                   .series = {},
                   .bars = {}};
    Json rows = Json::array();
    const auto percent = [](double share) { return fmt::format("{:.2f}", 100 * share); };
    for (const char* eviction : kEvictions)
      chart.series.push_back({.name = eviction, .points = {}});
    chart.series.push_back({.name = "ideal, the oldest goes", .points = {}, .dashed = true});
    chart.series.push_back({.name = "ideal, foreseeing", .points = {}, .dashed = true});
    for (const Measured& one : all) {
      const auto share = one.cell.what["share"].get<double>();
      const auto eviction = one.cell.what["evict"].get<std::string>();
      const double hits = one.median("hit_rate"), oldest = one.median("oldest"),
                   foreseen = one.median("foreseen");
      table.rows.push_back({fmt::format("{:.2f}", share), one.cell.what["blocks"].dump(), eviction,
                            percent(hits), percent(oldest), percent(foreseen)});
      rows.push_back({{"share", share},
                      {"evict", eviction},
                      {"hit_rate", hits},
                      {"ideal_oldest", oldest},
                      {"ideal_foreseeing", foreseen}});
      chart.series[eviction == kEvictions[0] ? 0 : 1].points.push_back({share, 100 * hits});
      if (eviction != kEvictions[0]) continue;
      chart.series[2].points.push_back({share, 100 * oldest});
      chart.series[3].points.push_back({share, 100 * foreseen});
    }
    findings.summary = {{"cells", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  uint64_t capacity(double share, size_t names) const {
    size_t longest = 0;
    for (const BlockRequest& one : requests_) longest = std::max(longest, one.blocks.size());
    return std::max<uint64_t>(longest, static_cast<uint64_t>(share * static_cast<double>(names)));
  }

  // Returns the prompt tokens that were cached.
  base::Result<uint32_t> serve(kv::Store& store, const std::vector<kv::Token>& tokens) {
    const kv::Opened opened = store.open(tokens);
    const auto count = static_cast<uint32_t>(tokens.size());
    if (opened.cached < count) {
      const kv::Slot slot = {.seq = opened.seq,
                             .fresh = count - opened.cached,
                             .tokens = std::span(tokens).subspan(opened.cached)};
      auto step = store.begin({{&slot, 1}});
      if (!step.ok()) return base::fail("no room for a prompt: {}", step.error().what);
      rows_.resize(size_t{slot.fresh} * kShape.head_dim, 1.0F);
      (*step)->write(0, rows_.data(), rows_.data());
      (*step)->commit(kv::Kept::all({{&slot, 1}}));
    }
    store.close(opened.seq);
    return opened.cached;
  }

  Bench bench_;
  std::vector<BlockRequest> requests_;
  uint64_t blocks_ = 0;  // blocks of all requests
  std::vector<float> rows_;
};

}  // namespace

std::unique_ptr<Experiment> make_prefix(const Bench& bench) {
  return std::make_unique<Prefix>(bench);
}

}  // namespace kvick::lab
