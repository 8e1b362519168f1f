#include "model/attend/attend_buckets.h"

#include <gtest/gtest.h>
#include <random>

#include "kv/registry/registry.h"
#include "model/attend/attend.h"

namespace kvick::model {
namespace {

constexpr uint32_t kHeads = 6, kKvHeads = 3, kHeadDim = 32;

std::vector<float> random_floats(size_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> value(-2, 2);
  std::vector<float> floats(count);
  for (float& x : floats) x = value(random);
  return floats;
}

// One layer's attention of some steps over one store, both ways.
struct Both {
  explicit Both(const std::string& spec) : pool(3), workspace(pool, kernels) {
    config.layers.push_back(LayerConfig::attention(kHeads, kKvHeads, kHeadDim));
    const kv::Setup setup = {.shape = {.layers = 1,
                                       .kv_heads = kKvHeads,
                                       .head_dim = kHeadDim,
                                       .max_tokens = 300,
                                       .k_type = kernels::DType::kF32,
                                       .v_type = kernels::DType::kF32}};
    store = std::move(kv::make_store(*kv::parse_spec(spec), setup)).value();
  }

  std::vector<float> attend(const Batch& batch, kv::Step& step, const std::vector<float>& q,
                            kernels::BucketAttention* with) {
    workspace.library = with;
    std::vector<float> out(q.size());
    BatchAttention(config, batch, step, workspace).run(0, {.q = q.data(), .out = out.data()});
    return out;
  }

  void run(std::span<const Slot> slots) {
    const Batch batch = {.slots = slots};
    const auto kv_slots = model::kv_slots(batch);
    auto step = std::move(store->begin({.slots = kv_slots})).value();
    const auto q = random_floats(size_t{batch.tokens()} * config.layers[0].q_floats(), random);
    const auto k = random_floats(size_t{batch.tokens()} * config.layers[0].k_floats(), random);
    const auto v = random_floats(k.size(), random);
    step->write(0, k.data(), v.data());
    const auto ours = attend(batch, *step, q, nullptr), theirs = attend(batch, *step, q, &library);
    for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], 2e-5) << i;
    step->commit(kv::Kept::all({.slots = kv_slots}));
  }

  Config config;
  base::ThreadPool pool;
  const kernels::Table& kernels = kernels::table(base::best_isa());
  Workspace workspace;
  kernels::BucketAttention library;
  std::unique_ptr<kv::Store> store;
  std::mt19937 random{7};
};

class EveryBucketStrategy : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Attend, EveryBucketStrategy,
                         testing::Values("iterative", "upfront", "virtual", "bmc:r=7", "bmc:r=64"));

TEST_P(EveryBucketStrategy, GivesTheLibraryWhatOurKernelsSee) {
  Both both(GetParam());
  const kv::SeqId a = both.store->open({}).seq, b = both.store->open({}).seq;
  const std::vector<Token> tokens(70, 1);
  const auto slot = [&](kv::SeqId seq, size_t count, std::span<const int32_t> parents = {}) {
    return Slot{.seq = seq,
                .past = both.store->length(seq),
                .tokens = std::span(tokens).first(count),
                .parents = parents};
  };
  both.run(std::vector{slot(a, 70)});
  both.run(std::vector{slot(a, 1)});
  both.run(std::vector{slot(b, 33), slot(a, 1)});
  const std::vector<int32_t> tree = {-1, 0, 0, 1, 2};
  both.run(std::vector{slot(a, 5, tree), slot(b, 1)});
  for (int i = 0; i < 40; ++i) both.run(std::vector{slot(a, 1), slot(b, 1)});
}

TEST(AttendBuckets, CompilesOneShapeForABucketAndOneForEveryLengthOfAnIterativeCache) {
  const auto shapes = [](const std::string& spec) {
    Both both(spec);
    const kv::SeqId a = both.store->open({}).seq;
    const std::vector<Token> token(1);
    for (uint32_t i = 0; i < 40; ++i) {
      const Slot slot = {.seq = a, .past = i, .tokens = token, .parents = {}};
      both.run({&slot, 1});
    }
    return both.library.compiled().shapes;
  };
  EXPECT_EQ(shapes("iterative"), 40u);
  EXPECT_EQ(shapes("bmc:r=10"), 4u);
  EXPECT_EQ(shapes("upfront"), 1u);
  EXPECT_EQ(shapes("virtual"), 1u);
}

}  // namespace
}  // namespace kvick::model
