#include "model/attend/attend_buckets.h"

#include <cmath>
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

// Computes one layer's attention in steps over one store, by kvick's kernels and by the library.
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

// Returns the attention of one KV head as kvick's kernels compute it.
std::vector<float> by_kernels(const kernels::Table& table, const kernels::View& view,
                              const kernels::Queries& queries) {
  const uint32_t n = queries.tokens * queries.group, size = n * queries.v_dim;
  std::vector<float> max(2 * n), sum(2 * n), acc(2 * size), out(size);
  const kernels::Partial state = {max.data(), sum.data(), acc.data()};
  const kernels::Partial next = {max.data() + n, sum.data() + n, acc.data() + size};
  for (uint32_t chunk = 0; chunk < kernels::chunk_count(view, queries); ++chunk) {
    table.attend_chunk(view, queries, chunk, chunk == 0 ? state : next, nullptr);
    if (chunk > 0) table.merge(state, next, n, queries.v_dim);
  }
  table.finish(state, view, queries, out.data(), queries.group * queries.v_dim);
  return out;
}

TEST(AttendBuckets, HideTheRowsBeforeAWindow) {
  Both both("upfront");
  const kv::SeqId a = both.store->open({}).seq;
  const std::vector<Token> tokens(270, 1);
  both.run(std::vector{Slot{.seq = a, .past = 0, .tokens = tokens, .parents = {}}});
  const Slot slot = {.seq = a, .past = 270, .tokens = std::span(tokens).first(4), .parents = {}};
  const auto kv_slots = model::kv_slots({.slots = {&slot, 1}});
  auto step = std::move(both.store->begin({.slots = kv_slots})).value();
  const auto k = random_floats(size_t{4} * both.config.layers[0].k_floats(), both.random);
  const auto q = random_floats(size_t{4} * both.config.layers[0].q_floats(), both.random);
  step->write(0, k.data(), k.data());
  base::Arena scratch;
  std::vector<kernels::View> views(kKvHeads);
  for (uint32_t head = 0; head < kKvHeads; ++head)
    step->view({.slot = 0, .layer = 0, .head = head, .q = q.data(), .q_stride = kHeads * kHeadDim},
               scratch, views[head]);
  const std::vector<uint32_t> paths[] = {{0}, {0, 1}, {0, 2}, {0, 2, 3}};
  const std::vector<std::span<const uint32_t>> tree(std::begin(paths), std::end(paths));
  constexpr uint32_t kGroup = kHeads / kKvHeads;
  for (const auto* visible : {tree.data(), static_cast<decltype(tree.data())>(nullptr)})
    for (const uint32_t window : {1U, 2U, 100U, 272U}) {
      std::vector<float> out(q.size());
      const BucketSlot asked = {.views = views,
                                .tokens = 4,
                                .q = q.data(),
                                .out = out.data(),
                                .visible = visible,
                                .position = 270};
      LayerConfig layer = both.config.layers[0];
      layer.window = window;
      attend_buckets(layer, {&asked, 1}, both.library, both.workspace);
      for (uint32_t head = 0; head < kKvHeads; ++head) {
        const auto ours = by_kernels(both.kernels, views[head],
                                     {.q = q.data() + head * kGroup * kHeadDim,
                                      .q_stride = kHeads * kHeadDim,
                                      .tokens = 4,
                                      .group = kGroup,
                                      .k_dim = kHeadDim,
                                      .v_dim = kHeadDim,
                                      .scale = 1 / std::sqrt(static_cast<float>(kHeadDim)),
                                      .visible = visible,
                                      .window = window,
                                      .position = 270});
        for (uint32_t i = 0; i < ours.size(); ++i) {
          const uint32_t t = i / (kGroup * kHeadDim), at = i % (kGroup * kHeadDim);
          ASSERT_NEAR(ours[i], out[(t * kKvHeads + head) * kGroup * kHeadDim + at], 2e-5)
              << "window " << window << " token " << t;
        }
      }
    }
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
