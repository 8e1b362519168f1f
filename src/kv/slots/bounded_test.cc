// Slots against their definition.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>

#include "kv/slots/test_bounded.h"

namespace kvick::kv::test {
namespace {

// A store and the tokens of each of its sequences.
struct Runner {
  explicit Runner(const MadeSlots& made_memory, bool with_gates,
                  base::Isa isa = tried_kernels().isa, base::ThreadPool* pool = nullptr,
                  uint64_t max_bytes = UINT64_MAX)
      : made(made_memory),
        gated(with_gates),
        store(make_store({"bounded", {}},
                         {.shape = kSlotShape,
                          .slots = &made.facts,
                          .limits = {.max_bytes = max_bytes},
                          .compute = {.kernels = &kernels::table(isa), .pool = pool}})
                  .value()) {}

  SeqId open() {
    const SeqId seq = store->open({}).seq;
    held[seq];
    return seq;
  }

  // Begins a step that adds these tokens and reads all layers; `out` gets what each token reads.
  std::unique_ptr<Step> begin(const std::vector<SeqId>& seqs,
                              const std::vector<std::vector<uint32_t>>& tokens,
                              const std::vector<Path>& paths = {}) {
    std::vector<Slot> slots;
    std::vector<Input> inputs;
    for (size_t s = 0; s < seqs.size(); ++s) {
      slots.push_back({seqs[s], static_cast<uint32_t>(tokens[s].size()), {}});
      for (const uint32_t token : tokens[s]) inputs.push_back(make_input(token));
    }
    auto begun = store->begin({slots});
    if (!begun.ok()) return nullptr;
    out.assign(inputs.size(), {});
    const std::vector<std::span<const uint32_t>> spans(paths.begin(), paths.end());
    std::vector<const std::span<const uint32_t>*> trees(seqs.size());
    if (!paths.empty()) trees[0] = spans.data();
    for (const uint32_t layer : {1U, 0U}) run_layer(**begun, layer, inputs, trees);
    return std::move(begun).value();
  }

  // Runs one step that keeps everything; returns what its last token reads.
  Floats add(SeqId seq, const std::vector<uint32_t>& tokens) {
    const auto step = begin({seq}, {tokens});
    EXPECT_NE(step, nullptr);
    std::vector<uint32_t> rows(tokens.size());
    for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    step->commit({.rows = {rows}});
    held[seq].insert(held[seq].end(), tokens.begin(), tokens.end());
    return out.back();
  }

  // Checks what one more token would read after the sequence's tokens.
  void expect_holds(SeqId seq, uint32_t token = 999) {
    ASSERT_NE(begin({seq}, {{token}}), nullptr);
    std::vector<uint32_t> tokens = held[seq];
    tokens.push_back(token);
    expect_near(out[0], naive(made, tokens, gated));
  }
  static void expect_near(const Floats& read, const Doubles& expected) {
    ASSERT_EQ(read.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(read[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
  }

  const MadeSlots& made;
  const bool gated;
  std::unique_ptr<Store> store;
  std::map<SeqId, std::vector<uint32_t>> held;
  std::vector<Floats> out;  // per token of the last step: [layers][kv_heads][group][head_dim]

 private:
  void run_layer(Step& step, uint32_t layer, const std::vector<Input>& inputs,
                 std::span<const std::span<const uint32_t>* const> paths) {
    const size_t token = size_t{kSlotShape.kv_heads} * kSlotShape.head_dim;
    const auto all = [&](Floats Input::*part, size_t n) {
      Floats rows;
      for (const Input& in : inputs)
        rows.insert(rows.end(), (in.*part).begin() + static_cast<ptrdiff_t>(layer * n),
                    (in.*part).begin() + static_cast<ptrdiff_t>((layer + 1) * n));
      return rows;
    };
    if (gated) step.facets().slots->gates(layer, all(&Input::gates, kSlotShape.kv_heads).data());
    step.write(layer, all(&Input::k, token).data(), all(&Input::v, token).data());
    const Floats q = all(&Input::q, token * kSlotGroup);
    Floats read(q.size(), std::nanf(""));
    step.facets().slots->read(
        layer, {.group = kSlotGroup, .q = q.data(), .out = read.data(), .paths = paths});
    for (size_t t = 0; t < inputs.size(); ++t) {
      out[t].resize(kSlotShape.layers * token * kSlotGroup);
      std::copy_n(read.begin() + static_cast<ptrdiff_t>(t * token * kSlotGroup), token * kSlotGroup,
                  out[t].begin() + static_cast<ptrdiff_t>(layer * token * kSlotGroup));
    }
  }
};

std::vector<base::Isa> supported() {
  std::vector<base::Isa> all(std::begin(base::kIsas), std::end(base::kIsas));
  std::erase_if(all, [](base::Isa isa) { return !base::isa_supported(isa); });
  return all;
}

// Without and with gates.
class BoundedOf : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Updates, BoundedOf, testing::Bool(),
                         [](const auto& gated) { return gated.param ? "gated" : "added"; });

TEST_P(BoundedOf, ReadsWhatTheDefinitionReadsFromStepsOfAnySize) {
  const MadeSlots made(kSlotShape, 37);
  std::vector<Doubles> expected;
  Doubles values(made.initial.begin(), made.initial.end());
  for (const uint32_t token : numbers(0, 200))
    expected.push_back(naive(made, make_input(token), values, GetParam()));
  for (const base::Isa isa : supported())
    for (const uint32_t size : {1U, 2U, 8U, 9U, 63U, 64U, 65U, 200U}) {
      SCOPED_TRACE(fmt::format("{} {}", base::isa_name(isa), size));
      Runner runner(made, GetParam(), isa);
      const SeqId seq = runner.open();
      for (uint32_t first = 0; first < 200; first += size) {
        runner.add(seq, numbers(first, std::min(size, 200 - first)));
        for (size_t i = 0; i < runner.out.size(); ++i)
          ASSERT_NO_FATAL_FAILURE(Runner::expect_near(runner.out[i], expected[first + i]));
      }
    }
}

TEST_P(BoundedOf, HasTheSameBitsHoweverTokensAreCutIntoStepsOnAnyNumberOfThreads) {
  const MadeSlots made(kSlotShape, 48);
  base::ThreadPool pool(3);
  for (const base::Isa isa : supported()) {
    Runner whole(made, GetParam(), isa);
    const Floats expected = whole.add(whole.open(), numbers(0, 200));
    for (const std::vector<uint32_t>& sizes :
         std::vector<std::vector<uint32_t>>{{1}, {7}, {63, 2}, {64}, {150, 50}})
      for (base::ThreadPool* threads : {static_cast<base::ThreadPool*>(nullptr), &pool}) {
        Runner runner(made, GetParam(), isa, threads);
        const SeqId seq = runner.open();
        Floats last;
        for (uint32_t first = 0, i = 0; first < 200; ++i) {
          const uint32_t n = std::min(sizes[i % sizes.size()], 200 - first);
          last = runner.add(seq, numbers(first, n));
          first += n;
        }
        EXPECT_EQ(last, expected) << base::isa_name(isa) << " " << sizes[0];
      }
  }
}

TEST_P(BoundedOf, HasTheSameBitsAloneAndInARaggedBatch) {
  const MadeSlots made(kSlotShape, 37);
  Runner alone(made, GetParam()), together(made, GetParam());
  std::vector<Floats> expected;
  std::vector<SeqId> seqs;
  const std::vector<std::vector<uint32_t>> tokens = {numbers(0, 70), {100}, numbers(200, 9)};
  for (size_t s = 0; s < tokens.size(); ++s) {
    seqs.push_back(together.open());
    const SeqId seq = alone.open();
    (void)together.add(seqs.back(), {500});
    (void)alone.add(seq, {500});
    (void)alone.add(seq, tokens[s]);
    expected.insert(expected.end(), alone.out.begin(), alone.out.end());
  }
  ASSERT_NE(together.begin(seqs, tokens), nullptr);
  EXPECT_EQ(together.out, expected);
}

TEST_P(BoundedOf, TakesManySlotsWhoseScoresDoNotFitOneWalkAndKeysOfSixteenBits) {
  for (const kernels::DType type : {kernels::DType::kF16, kernels::DType::kBF16}) {
    const MadeSlots made(kSlotShape, 2000, type);
    Runner runner(made, GetParam());
    const SeqId seq = runner.open();
    runner.held[seq] = numbers(0, 40);
    runner.held[seq].pop_back();
    const auto step = runner.begin({seq}, {numbers(0, 40)});
    runner.expect_near(runner.out[39], naive(made, numbers(0, 40), GetParam()));
    step->commit({.rows = {numbers(0, 39)}});
    runner.expect_holds(seq);
  }
}

// 0 -> 1 -> 3, 0 -> 2 -> 4 -> 5; then a second tree of more tokens than commit() keeps weights for.
TEST_P(BoundedOf, ReadsEachPathOfATreeAsIfItWereAlone) {
  const MadeSlots made(kSlotShape, 37);
  const std::vector<Path> paths = {{0}, {0, 1}, {0, 2}, {0, 1, 3}, {0, 2, 4}, {0, 2, 4, 5}};
  for (const uint32_t more : {0U, 10U}) {
    Runner runner(made, GetParam()), chain(made, GetParam());
    const SeqId seq = runner.open(), other = runner.open(), alone = chain.open();
    (void)runner.add(seq, {1, 2, 3});
    (void)chain.add(alone, {1, 2, 3});
    std::vector<Path> all = paths;
    for (uint32_t i = 0; i < more; ++i) all.push_back({6 + i});
    const auto tokens = numbers(10, 6 + more);
    const auto step = runner.begin({seq, other}, {tokens, {77}}, all);
    ASSERT_NE(step, nullptr);
    for (const Path& path : all) {
      std::vector<uint32_t> row;
      for (const uint32_t i : path) row.push_back(tokens[i]);
      ASSERT_NE(chain.begin({alone}, {row}), nullptr);
      EXPECT_EQ(runner.out[path.back()], chain.out.back()) << path.back();
    }
    step->commit({.rows = {{0, 2, 4}, {}}});
    (void)chain.add(alone, {10, 12, 14});
    EXPECT_EQ(runner.store->length(seq), 6u);
    EXPECT_EQ(runner.add(seq, {50}), chain.add(alone, {50}));
  }
}

TEST_P(BoundedOf, KeepsExactlyTheRowsOfACommitWhetherOrNotTheStepWasRead) {
  const MadeSlots made(kSlotShape, 37);
  const std::vector<Path> kept = {{}, {0}, {1, 2, 5}, {0, 1, 2, 3, 4, 5}};
  for (const uint32_t fresh : {6U, 30U})
    for (const Path& rows : kept)
      for (const bool read : {true, false}) {
        Runner runner(made, GetParam());
        const SeqId seq = runner.open();
        (void)runner.add(seq, {1, 2});
        const auto step = read ? runner.begin({seq}, {numbers(10, fresh)})
                               : runner.store->begin({{{Slot{seq, fresh, {}}}}}).value();
        for (uint32_t layer = 0; !read && layer < kSlotShape.layers; ++layer) {
          Floats k, v, gates;
          const size_t heads = kSlotShape.kv_heads, n = heads * kSlotShape.head_dim;
          for (const uint32_t token : numbers(10, fresh)) {
            const Input in = make_input(token);
            k.insert(k.end(), in.k.data() + layer * n, in.k.data() + (layer + 1) * n);
            v.insert(v.end(), in.v.data() + layer * n, in.v.data() + (layer + 1) * n);
            gates.insert(gates.end(), in.gates.data() + layer * heads,
                         in.gates.data() + (layer + 1) * heads);
          }
          if (GetParam()) step->facets().slots->gates(layer, gates.data());
          step->write(layer, k.data(), v.data());
        }
        step->commit({.rows = {rows}});
        for (const uint32_t row : rows) runner.held[seq].push_back(10 + row);
        runner.expect_holds(seq);
      }
}

TEST(Bounded, TakesTheSameMemoryHoweverManyTokensAreInIt) {
  const MadeSlots made(kSlotShape, 37);
  Runner runner(made, false);
  const uint64_t bytes = uint64_t{2} * 2 * 37 * 20 * sizeof(float);
  const SeqId seq = runner.open();
  for (const uint32_t n : {1U, 100U, 150U}) {
    (void)runner.add(seq, numbers(0, n));
    EXPECT_EQ(runner.store->usage().used_bytes, bytes);
    EXPECT_EQ(runner.store->usage().allocated_bytes, bytes);
  }
  EXPECT_EQ(runner.store->length(seq), 251u);
}

TEST(Bounded, StartsFromZerosWithoutInitialValues) {
  MadeSlots made(kSlotShape, 37);
  std::fill(made.initial.begin(), made.initial.end(), 0.0F);
  made.facts.initial = {};
  Runner runner(made, false);
  runner.expect_holds(runner.open());
}

TEST(Bounded, IsF32OnlyAndSaysSo) {
  const MadeSlots made(kSlotShape, 37);
  kv::Setup setup = {.shape = kSlotShape, .slots = &made.facts};
  setup.shape.v_type = kernels::DType::kQ8;
  const std::string sentence =
      "bounded adds every token to the same memory, which it keeps as f32: leave the type of keys "
      "and values out, or give f32";
  setup.shape.head_dim = 32;
  EXPECT_EQ(make_store({"bounded", {}}, setup).error().message, sentence);
  EXPECT_EQ(cost_of({"bounded", {}}, setup, {}).error().message, sentence);
}

#if !defined(KVICK_SANITIZED)
TEST(Bounded, ARefusalOfTheSystemIsAShortage) {
  std::vector<kernels::Matrix> keys(64);
  for (kernels::Matrix& matrix : keys) matrix.rows = matrix.inputs = 1U << 20;
  const Slots huge = {.slots = 1U << 20, .scale = 1, .keys = keys, .initial = {}};
  kv::Setup setup = {.shape = kSlotShape, .slots = &huge};
  setup.shape.layers = 1, setup.shape.kv_heads = 64, setup.shape.head_dim = 1U << 20;
  const auto store = make_store({"bounded", {}}, setup).value();
  const Slot slot = {store->open({}).seq, 1, {}};
  const auto step = store->begin({{&slot, 1}});
  ASSERT_FALSE(step.ok());
  EXPECT_GT(step.error().needed_bytes, uint64_t{1} << 46);
  EXPECT_NE(step.error().what.find("the system refuses"), std::string::npos) << step.error().what;
  EXPECT_EQ(store->usage().allocated_bytes, 0u);
}
#endif

// Plays random operations and compares with a list of tokens per sequence.
class Player {
 public:
  Player(const MadeSlots& made, bool gated, base::ThreadPool& pool, uint32_t seed)
      : runner_(made, gated, tried_kernels().isa, &pool, 4 * made.initial.size() * sizeof(float)),
        random_(seed) {}

  void play(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      const uint32_t dice = below(10);
      if (runner_.held.empty() || dice == 0) {
        if (runner_.held.size() < 5) (void)runner_.open();
      } else if (dice == 1) {
        const SeqId seq = any();
        const auto fork = runner_.store->fork(seq);
        if (fork.ok()) runner_.held[*fork] = runner_.held[seq];
      } else if (dice == 2) {
        const SeqId seq = any();
        runner_.store->close(seq);
        runner_.held.erase(seq);
      } else {
        step();
      }
      if (!runner_.held.empty() && below(4) == 0) look(any());
    }
  }

 private:
  uint32_t below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  SeqId any() {
    return std::next(runner_.held.begin(), below(static_cast<uint32_t>(runner_.held.size())))
        ->first;
  }
  void look(SeqId seq) {
    ASSERT_EQ(runner_.store->length(seq), runner_.held[seq].size());
    if (runner_.begin({seq}, {{7}}) != nullptr) runner_.expect_holds(seq, 7);
  }
  void step() {
    std::vector<SeqId> seqs;
    std::vector<std::vector<uint32_t>> tokens;
    Kept kept;
    for (const auto& [seq, rows] : runner_.held) {
      if (below(2) == 0 || rows.size() > 150) continue;
      seqs.push_back(seq);
      tokens.push_back(numbers(below(1000), 1 + below(below(3) == 0 ? 70 : 4)));
      std::vector<uint32_t> all = numbers(0, static_cast<uint32_t>(tokens.back().size()));
      std::erase_if(all, [&](uint32_t) { return below(4) == 0; });
      kept.rows.push_back(all);
    }
    if (seqs.empty()) return;
    const auto step = runner_.begin(seqs, tokens);
    if (step == nullptr || below(4) == 0) return;
    step->commit(kept);
    for (size_t s = 0; s < seqs.size(); ++s)
      for (const uint32_t row : kept.rows[s]) runner_.held[seqs[s]].push_back(tokens[s][row]);
  }

  Runner runner_;
  std::mt19937 random_;
};

TEST_P(BoundedOf, RandomOperationsAgreeWithAListOfTokens) {
  const char* given = std::getenv("KVICK_TEST_SEED");
  const uint32_t seed = given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                                         : std::random_device{}();
  SCOPED_TRACE("KVICK_TEST_SEED=" + std::to_string(seed));
  const MadeSlots made(kSlotShape, 18);
  base::ThreadPool pool(2);
  Player(made, GetParam(), pool, seed).play(120);
}

}  // namespace
}  // namespace kvick::kv::test
