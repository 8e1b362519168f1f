#include "lab/measure/growth_run.h"

#include <algorithm>

#include "plan/forecast/growth_rates.h"

namespace kvick::lab {
namespace {

// Timed steps per piece, the first included.
constexpr uint32_t kTimed = 5;

// Everything timed in one step.
struct Sample {
  plan::BlockSeconds seconds;
  double compile_s = 0, shapes = 0;

  void add(const Sample& other, double times) {
    seconds.begin += times * other.seconds.begin;
    seconds.write += times * other.seconds.write;
    seconds.attend += times * other.seconds.attend;
    seconds.commit += times * other.seconds.commit;
    compile_s += times * other.compile_s;
    shapes += times * other.shapes;
  }
};

struct Runner {
  plan::AttentionBlock& block;
  const kernels::BucketAttention* library;
  std::span<const kv::SeqId> seqs;

  base::Result<Sample, kv::Shortage> step() {
    const auto compiled = [&] {
      return library != nullptr ? library->compiled() : kernels::BucketAttention::Compiled{};
    };
    const auto before = compiled();
    Sample sample;
    KVICK_TRY_VOID(block.step(seqs, 1, sample.seconds));
    const auto after = compiled();
    sample.compile_s = after.seconds - before.seconds;
    sample.shapes = static_cast<double>(after.shapes - before.shapes);
    return sample;
  }

  // Runs `tokens` steps. Only the first few are timed and count for all.
  base::Status<kv::Shortage> piece(uint32_t tokens, Sample& sum) {
    const uint32_t timed = std::min(tokens, kTimed);
    Sample rest;
    for (uint32_t i = 0; i < timed; ++i) {
      KVICK_TRY(const Sample sample, step());
      (i == 0 ? sum : rest).add(sample, 1);
    }
    if (timed > 1) sum.add(rest, (tokens - 1.0) / (timed - 1.0));
    if (timed < tokens) KVICK_TRY_VOID(block.fill(seqs, tokens - timed));
    return base::Done{};
  }
};

}  // namespace

kv::Setup setup_of(const Bench& bench, const GrowthRun& run) {
  kv::Setup setup;
  setup.shape = {.layers = run.config.layer_count(),
                 .kv_heads = run.config.layers.front().kv_heads,
                 .head_dim = run.config.layers.front().k_dim,
                 .max_tokens = run.tokens,
                 .k_type = kernels::DType::kF32,
                 .v_type = kernels::DType::kF32};
  setup.limits.max_bytes = base::available_memory_bytes();
  setup.compute.store_row = bench.kernels.store_row;
  setup.compute.pool = &bench.pool;
  return setup;
}

base::Result<GrowthCost> run_growth(const Bench& bench, const GrowthRun& run) {
  KVICK_TRY(const kv::Spec spec, kv::parse_spec(run.spec));
  KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(spec, setup_of(bench, run)));
  kernels::BucketAttention library;
  model::Workspace workspace(bench.pool, bench.kernels);
  if (run.attention == engine::Attention::kBmm) workspace.library = &library;
  plan::AttentionBlock block(run.config, *store, workspace);
  std::vector<kv::SeqId> seqs;
  for (uint32_t i = 0; i < run.batch; ++i) seqs.push_back(store->open({}).seq);
  Runner runner = {block, workspace.library, seqs};
  Sample sum;
  GrowthCost cost;
  for (uint32_t done = 0; done < run.tokens;) {
    const uint32_t tokens = std::min(run.piece, run.tokens - done);
    if (auto status = runner.piece(tokens, sum); !status.ok())
      return base::fail("{} at {} tokens: {}", run.spec, done, status.error().what);
    cost.timed_steps += std::min(tokens, kTimed);
    done += tokens;
  }
  cost.seconds = sum.seconds;
  cost.compile_s = sum.compile_s;
  cost.compiled_shapes = sum.shapes;
  cost.usage = store->usage();
  return cost;
}

base::Result<kv::GrowthRates> measure_rates(const Bench& bench, const GrowthRun& run) {
  kernels::BucketAttention library;
  model::Workspace workspace(bench.pool, bench.kernels);
  workspace.library = &library;
  return plan::measure_growth(run.config, setup_of(bench, run), workspace);
}

Json json_of(const GrowthCost& cost) {
  return {{"begin_s", cost.seconds.begin},
          {"write_s", cost.seconds.write},
          {"attend_s", cost.seconds.attend},
          {"compile_s", cost.compile_s},
          {"all_s", cost.seconds.all() + cost.compile_s},
          {"compiled_shapes", cost.compiled_shapes},
          {"timed_steps", cost.timed_steps},
          {"allocated_bytes", cost.usage.allocated_bytes}};
}

}  // namespace kvick::lab
