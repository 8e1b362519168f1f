// A step may want a layer's inputs and attention probabilities. It receives them in order, and the
// logits keep their bits.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "kv/registry/registry.h"
#include "model/attend/attend_probs.h"
#include "model/core/executor.h"
#include "model/core/test_model.h"

namespace kvick::model {
namespace {

using tools::Arch;

// A step of a store that wants everything and checks what it receives.
class Spy final : public kv::Step, kv::InputReader, kv::Observer {
 public:
  // positions: of the batch's tokens; wants: whether the step asks for anything; apart: what it
  // answers to Observer::apart.
  Spy(kv::Step& inner, const Config& config, std::vector<uint32_t> positions, bool wants,
      uint32_t apart)
      : inner_(inner),
        config_(config),
        tokens_(static_cast<uint32_t>(positions.size())),
        positions_(std::move(positions)),
        wants_(wants),
        apart_(apart) {}

  kv::StepFacets facets() override {
    if (!wants_) return {};
    return {.inputs = this, .observer = this, .per_query = true};
  }
  void inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) override {
    EXPECT_EQ(written_, layer);
    EXPECT_TRUE(
        std::equal(positions.begin(), positions.end(), positions_.begin(), positions_.end()));
    given_ = layer;
    float most = 0;
    for (size_t i = 0; i < size_t{tokens_} * config_.dim; ++i)
      most = std::max(most, std::abs(x[i]));
    EXPECT_GT(most, 0);
  }
  void write(uint32_t layer, const float* k, const float* v) override {
    if (wants_) {
      EXPECT_EQ(given_, layer);
    }
    written_ = layer + 1;
    inner_.write(layer, k, v);
  }
  void view(const kv::Query& query, base::Arena& scratch, kernels::View& out) override {
    EXPECT_EQ(query.scale, config_.layers[query.layer].scale);
    EXPECT_EQ(query.softcap, config_.layers[query.layer].softcap);
    EXPECT_EQ(query.sinks != nullptr, config_.layers[query.layer].sinks);
    // In logits_of's last step, slot 1 has five tokens that form the tree {-1, 0, 0, 2, -1}.
    ASSERT_EQ(query.path != nullptr, query.slot == 1 && tokens_ == 10);
    if (query.path != nullptr) {
      EXPECT_TRUE(std::ranges::equal(query.path[3], std::vector<uint32_t>{0, 2, 3}));
    }
    inner_.view(query, scratch, out);
  }
  uint32_t apart(uint32_t layer) const override {
    EXPECT_LT(layer, config_.layer_count());
    return apart_;
  }
  // Checks the probabilities of one token, which sees all committed rows and those on its path.
  void expect_token(const kv::Query& query, uint32_t token, uint32_t fresh,
                    std::span<const float> probs) const {
    const size_t past = probs.size() - fresh;
    double sum = 0;
    for (const float p : probs) sum += p;
    EXPECT_NEAR(sum, config_.layers[query.layer].group(), 1e-4) << "token " << token;
    for (uint32_t row = 0; row < fresh; ++row) {
      const bool seen =
          query.path == nullptr ? row <= token : std::ranges::count(query.path[token], row) == 1;
      EXPECT_EQ(probs[past + row] > 0, seen) << "token " << token << " row " << row;
    }
  }
  void observe(const kv::Query& query, const kernels::View& view,
               std::span<const float> probs) override {
    EXPECT_NE(query.q, nullptr);
    if (apart_ == kQueriesOnly) {
      EXPECT_TRUE(probs.empty());
      ++observed_;
      return;
    }
    if (apart_ > 0) {
      const uint32_t new_rows = kernels::rows_of(view.fresh), shown = rows_of(view);
      const uint32_t count = std::min(apart_, new_rows);
      ASSERT_EQ(probs.size(), size_t{count} * shown);
      for (uint32_t i = 0; i < count; ++i)
        expect_token(query, new_rows - count + i, new_rows,
                     probs.subspan(size_t{i} * shown, shown));
      ++observed_;
      return;
    }
    EXPECT_EQ(probs.size(), rows_of(view));
    double sum = 0;
    for (const float p : probs) sum += p;
    const size_t fresh = kernels::rows_of(view.fresh);
    EXPECT_NEAR(sum, static_cast<double>(fresh * config_.layers[query.layer].group()), 1e-3)
        << query.layer;
    ++observed_;
  }
  void commit(const kv::Kept& kept) override { inner_.commit(kept); }

  uint32_t observed() const { return observed_; }

 private:
  kv::Step& inner_;
  const Config& config_;
  uint32_t tokens_;
  std::vector<uint32_t> positions_;
  bool wants_;
  uint32_t apart_;
  uint32_t given_ = UINT32_MAX, written_ = 0;
  std::atomic<uint32_t> observed_ = 0;
};

std::vector<float> logits_of(Arch arch, bool wants, const tools::Features& features = {},
                             uint32_t apart = 0) {
  base::ThreadPool pool(2);
  const kernels::Table& kernels = kernels::table(base::best_isa());
  const bool opt = arch == Arch::kOpt;  // there are no GGUF files of OPT
  tools::Spec spec = tiny_spec(arch, opt ? kernels::DType::kF16 : kernels::DType::kQ8_0);
  spec.features = features;
  const auto model = load_model(write_model(spec, pool, opt), pool, kernels);
  Executor executor(*model, {pool, kernels});
  kv::Setup setup;
  setup.shape = model->kv_shape(kernels::DType::kF16, kernels::DType::kF16);
  const auto store = std::move(kv::make_store(*kv::parse_spec("virtual"), setup)).value();
  const kv::SeqId a = store->open({}).seq, b = store->open({}).seq;
  std::vector<float> all;
  uint32_t past = 0;
  const std::vector<int32_t> tree = {-1, 0, 0, 2, -1};
  const uint32_t depths[] = {0, 1, 1, 2, 0};
  for (const uint32_t n : {270U, 1U, 5U}) {  // the first step has more rows than one chunk
    const std::vector<Token> tokens(n, 3);
    const Slot slots[] = {{.seq = a, .past = past, .tokens = tokens, .parents = {}},
                          {.seq = b,
                           .past = past,
                           .tokens = tokens,
                           .parents = n == 5 ? std::span(tree) : std::span<const int32_t>()}};
    auto step = executor.begin(*store, {.slots = slots}).value();
    std::vector<uint32_t> places(2 * size_t{n});
    for (uint32_t t = 0; t < places.size(); ++t) places[t] = past + t % n;
    for (uint32_t t = 0; n == 5 && t < n; ++t) places[n + t] = past + depths[t];
    Spy spy(step.rows(), model->config(), places, wants, apart);
    const std::vector<uint32_t> wanted = {n - 1, 2 * n - 1};
    step.forward(wanted, spy);
    const Config& config = model->config();
    EXPECT_EQ(spy.observed(), wants ? config.layer_count() * 2 * config.layers[0].kv_heads : 0);
    step.commit(step.all());
    all.insert(all.end(), executor.logits().begin(), executor.logits().end());
    past += n;
  }
  return all;
}

class Wants : public testing::TestWithParam<Arch> {};
INSTANTIATE_TEST_SUITE_P(Model, Wants,
                         testing::Values(Arch::kLlama, Arch::kQwen2, Arch::kQwen3, Arch::kOpt),
                         [](const auto& instance) {
                           return std::string(tools::arch_name(instance.param));
                         });

TEST_P(Wants, AreGivenAndChangeNoBit) {
  const std::vector<float> plain = logits_of(GetParam(), false),
                           given = logits_of(GetParam(), true);
  ASSERT_EQ(plain.size(), given.size());
  EXPECT_EQ(std::memcmp(plain.data(), given.data(), plain.size() * sizeof(float)), 0);
}

// 100 tokens are in more than one task of a prompt of 270, and begin inside one.
TEST_P(Wants, MayBeGivenForTheLastTokensOneByOne) {
  const std::vector<float> plain = logits_of(GetParam(), false),
                           given = logits_of(GetParam(), true, {}, 100);
  ASSERT_EQ(plain.size(), given.size());
  EXPECT_EQ(std::memcmp(plain.data(), given.data(), plain.size() * sizeof(float)), 0);
}

TEST_P(Wants, MayBeTheQueriesAlone) {
  const std::vector<float> plain = logits_of(GetParam(), false),
                           given = logits_of(GetParam(), true, {}, kv::Observer::kQueriesOnly);
  ASSERT_EQ(plain.size(), given.size());
  EXPECT_EQ(std::memcmp(plain.data(), given.data(), plain.size() * sizeof(float)), 0);
}

// Spy compares the cap and the sinks with the layer's.
TEST(Query, SaysTheCapAndTheSinksOfItsLayer) {
  EXPECT_FALSE(logits_of(Arch::kLlama, false, {.softcap = 5, .sinks = true}).empty());
}

}  // namespace
}  // namespace kvick::model
