// A model whose layers differ, with every strategy of rows. Its store must show what its trivial
// twin has, whatever is dropped, forked, closed or opened again.

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>

#include "kv/registry/registry.h"
#include "kv/strategy/facet_calls.h"
#include "kv/testing/cases.h"
#include "kv/testing/rows.h"

namespace kvick::kv::test {
namespace {

using Keeps = LayerSpec::Keeps;

constexpr uint64_t kStateBytes = 24;
constexpr uint32_t kContext = 300;

std::vector<LayerSpec> mixed_layers() {
  const LayerSpec full = {.kv_heads = 2, .k_dim = 32, .v_dim = 32};
  LayerSpec window = {.kv_heads = 1, .k_dim = 64, .v_dim = 32, .window = 8};
  LayerSpec chunked = {.kv_heads = 3, .k_dim = 32, .v_dim = 32, .window = 16, .chunked = true};
  const LayerSpec latent = {.keeps = Keeps::kLatent, .kv_heads = 1, .k_dim = 64, .v_dim = 32};
  const LayerSpec state = {.keeps = Keeps::kState, .state_bytes = kStateBytes};
  const LayerSpec shared = {.keeps = Keeps::kNothing, .rows_of = 1};
  return {full, window, state, chunked, latent, full, window, shared, state};
}

// A store and the tokens of its sequences; a row's content is computed from its token.
class Twin {
 public:
  explicit Twin(const std::string& spec, kernels::DType type, uint64_t max_bytes = UINT64_MAX) {
    Setup setup = {.shape = {.max_tokens = kContext, .k_type = type, .v_type = type},
                   .layers = layers_,
                   .limits = {.max_bytes = max_bytes}};
    if (find_strategy(parse_spec(spec)->name)->traits.tiered)
      setup.tier.spec = parse_spec("ram:unit=8,size=64MiB").value();
    auto made = make_store(parse_spec(spec).value(), setup);
    if (!made.ok()) ADD_FAILURE() << made.error().message;
    store_ = std::move(made).value();
  }

  Store& store() { return *store_; }
  const std::vector<Token>& tokens(SeqId seq) const { return tokens_.at(seq); }
  const std::map<SeqId, std::vector<Token>>& all() const { return tokens_; }

  SeqId open(const std::vector<Token>& prompt = {}) {
    const Opened opened = store_->open(prompt);
    EXPECT_LE(opened.cached, prompt.size());
    tokens_[opened.seq].assign(prompt.begin(), prompt.begin() + opened.cached);
    return opened.seq;
  }
  void close(SeqId seq) {
    store_->close(seq);
    tokens_.erase(seq);
  }
  SeqId fork(SeqId seq) {
    const SeqId made = store_->fork(seq).value();
    tokens_[made] = tokens_.at(seq);
    return made;
  }
  // Runs a step of these fresh tokens. kept: the rows to keep; null: the step is dropped.
  void step(const std::vector<std::pair<SeqId, std::vector<Token>>>& fresh, const Kept* kept,
            bool whole = false) {
    std::vector<Slot> slots;
    for (const auto& [seq, rows] : fresh)
      slots.push_back({.seq = seq,
                       .fresh = static_cast<uint32_t>(rows.size()),
                       .tokens = rows,
                       .whole = whole});
    auto begun = store_->begin({slots});
    ASSERT_TRUE(begun.ok()) << begun.error().what;
    const std::unique_ptr<Step> step = std::move(begun).value();
    for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
      write(*step, layer, fresh, whole);
      for (uint32_t slot = 0; slot < fresh.size(); ++slot) check(*step, layer, slot, fresh[slot]);
    }
    if (kept == nullptr) return;
    step->commit(*kept);
    for (size_t slot = 0; slot < fresh.size(); ++slot)
      for (const uint32_t row : kept->rows[slot])
        tokens_[fresh[slot].first].push_back(fresh[slot].second[row]);
  }
  void add(SeqId seq, const std::vector<Token>& rows) {
    Kept all;
    all.rows.emplace_back(rows.size());
    std::iota(all.rows[0].begin(), all.rows[0].end(), 0U);
    step({{seq, rows}}, &all, true);
  }
  // Checks every sequence in a step that is dropped.
  void check_all() {
    for (const auto& [seq, tokens] : tokens_) {
      ASSERT_EQ(store_->length(seq), tokens.size());
      if (tokens.size() < kContext) step({{seq, {1}}}, nullptr);
    }
  }

 private:
  // Returns the state of a layer after some tokens: their hash, their number and the layer.
  static std::array<uint64_t, 3> state_of(uint32_t layer, const std::vector<Token>& tokens) {
    uint64_t sum = 0;
    for (const Token token : tokens) sum = sum * 31 + static_cast<uint64_t>(token);
    return {sum, tokens.size(), tokens.empty() ? 0 : layer + 1};
  }
  static Shape shape_of(const LayerSpec& spec, kernels::DType type) {
    return {.layers = 1,
            .kv_heads = spec.kv_heads,
            .head_dim = spec.k_dim,
            .max_tokens = kContext,
            .k_type = type,
            .v_type = type,
            .v_dim = spec.v_dim,
            .latent = spec.keeps == Keeps::kLatent,
            .window = spec.window,
            .chunked = spec.chunked};
  }

  void write(Step& step, uint32_t layer,
             const std::vector<std::pair<SeqId, std::vector<Token>>>& fresh, bool whole) {
    const LayerSpec& spec = layers_[layer];
    if (spec.keeps == Keeps::kNothing) return;
    if (spec.keeps == Keeps::kState) {
      for (uint32_t slot = 0; slot < fresh.size(); ++slot) {
        std::vector<Token> tokens = tokens_.at(fresh[slot].first);
        for (uint32_t row = 0; row < fresh[slot].second.size(); ++row) {
          tokens.push_back(fresh[slot].second[row]);
          const std::span<std::byte> to = step.facets().states->state_after(layer, slot, row);
          const bool last = row + 1 == fresh[slot].second.size();
          ASSERT_EQ(to.size(), whole && !last ? 0 : kStateBytes);
          if (!to.empty()) std::memcpy(to.data(), state_of(layer, tokens).data(), kStateBytes);
        }
      }
      return step.write(layer, nullptr, nullptr);
    }
    std::vector<float> k, v;
    for (const auto& [seq, rows] : fresh)
      for (const Token row : rows)
        for (uint32_t head = 0; head < spec.kv_heads; ++head) {
          for (uint32_t i = 0; i < spec.k_dim; ++i)
            k.push_back(element(row, layer, head, false, i));
          for (uint32_t i = 0; i < spec.v_dim; ++i) v.push_back(element(row, layer, head, true, i));
        }
    step.write(layer, k.data(), spec.keeps == Keeps::kLatent ? nullptr : v.data());
  }
  // Equal tokens have equal rows, so that prefixes can be shared.
  float element(Token row, uint32_t layer, uint32_t head, bool is_v, uint32_t i) const {
    const bool of_key = is_v && layers_[layer].keeps == Keeps::kLatent;
    return value_of(static_cast<uint32_t>(row), layer, head, is_v && !of_key, i);
  }

  void check(Step& step, uint32_t layer, uint32_t slot,
             const std::pair<SeqId, std::vector<Token>>& fresh) {
    const std::vector<Token>& past = tokens_.at(fresh.first);
    if (layers_[layer].keeps == Keeps::kState) {
      const auto state = step.facets().states->state(layer, slot);
      ASSERT_EQ(state.size(), kStateBytes);
      EXPECT_EQ(std::memcmp(state.data(), state_of(layer, past).data(), kStateBytes), 0) << layer;
      return;
    }
    const uint32_t of = layers_[layer].keeps == Keeps::kNothing ? layers_[layer].rows_of : layer;
    const kernels::DType type = store_->info().groups[0].k_type;
    const Shape shape = shape_of(layers_[of], type);
    std::vector<Token> rows(past.begin() + shape.first_seen(static_cast<uint32_t>(past.size())),
                            past.end());
    rows.insert(rows.end(), fresh.second.begin(), fresh.second.end());
    base::Arena scratch;
    kernels::View view;
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view({.slot = slot, .layer = layer, .head = head}, scratch, view);
      EXPECT_EQ(view.fresh.v == view.fresh.k, shape.latent);
      for (const bool is_v : {false, true}) {
        if (is_v && shape.latent) continue;  // a part of the key
        std::vector<std::byte> shown, expected;
        const auto gather = [&](const kernels::Segment& segment) {
          for (const kernels::Run& run : segment.runs)
            for (uint32_t i = 0; i < run.rows; ++i) {
              const std::byte* const row =
                  (is_v ? segment.v : segment.k) +
                  size_t{run.row + i} * (is_v ? segment.v_stride : segment.k_stride);
              shown.insert(shown.end(), row, row + kernels::dtype_bytes(type, shape.dim(is_v)));
            }
        };
        for (const kernels::Segment& segment : view.past) gather(segment);
        gather(view.fresh);
        for (const Token row : rows) {
          std::vector<float> floats(shape.dim(is_v));
          for (uint32_t i = 0; i < floats.size(); ++i) floats[i] = element(row, of, head, is_v, i);
          expected.resize(expected.size() + kernels::dtype_bytes(type, floats.size()));
          kernels::from_f32(type, floats.data(), floats.size(),
                            &*(expected.end() -
                               static_cast<ptrdiff_t>(kernels::dtype_bytes(type, floats.size()))));
        }
        EXPECT_TRUE(shown == expected)
            << "layer " << layer << " head " << head << (is_v ? " values" : " keys") << " of "
            << past.size() << " tokens and " << fresh.second.size();
      }
    }
  }

  std::vector<LayerSpec> layers_ = mixed_layers();
  std::unique_ptr<Store> store_;
  std::map<SeqId, std::vector<Token>> tokens_;
};

struct GroupCase {
  std::string spec;
  kernels::DType type;
};
class Groups : public testing::TestWithParam<GroupCase> {};

std::vector<GroupCase> group_cases() {
  using enum kernels::DType;
  constexpr const char* kSpecs[] = {"virtual", "bmc:r=16",      "iterative",
                                    "upfront", "paged:block=4", "paged:block=4,prefix=off",
                                    "tiered",  "sliding"};
  constexpr kernels::DType kElements[] = {kF32, kF16, kQ8, kQ4};
  std::vector<GroupCase> all;
  for (size_t s = 0; s < std::size(kSpecs); ++s)
    for (size_t t = 0; t < std::size(kElements); ++t)
      if (tries(s, t)) all.push_back({kSpecs[s], kElements[t]});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Mixed, Groups, testing::ValuesIn(group_cases()), [](const auto& one) {
  std::string name = one.param.spec + "_" + std::string(kernels::dtype_info(one.param.type).name);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST_P(Groups, ShowWhatWasWrittenWhateverIsDroppedForkedAndClosed) {
  Twin twin(GetParam().spec, GetParam().type);
  std::mt19937 random(7);
  const auto pick = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  std::vector<std::vector<Token>> known;
  for (int turn = 0; turn < 120 && !HasFatalFailure(); ++turn) {
    std::vector<SeqId> open;
    for (const auto& [seq, tokens] : twin.all()) open.push_back(seq);
    const uint32_t what = pick(10);
    if (open.empty() || (what == 0 && open.size() < 5)) {
      twin.open(known.empty() ? std::vector<Token>{} : known[pick(uint32_t(known.size()))]);
      continue;
    }
    const SeqId seq = open[pick(static_cast<uint32_t>(open.size()))];
    if (what == 1 && open.size() < 5) {
      twin.fork(seq);
    } else if (what == 2) {
      known.push_back(twin.tokens(seq));
      known.back().push_back(5);
      twin.close(seq);
    } else if (what == 3) {
      twin.check_all();
    } else {
      // A ragged batch; a part of its rows is kept, or none.
      std::vector<std::pair<SeqId, std::vector<Token>>> fresh;
      Kept kept;
      for (const SeqId one : open) {
        if (one != seq && pick(2) == 0) continue;
        const uint32_t room = kContext - static_cast<uint32_t>(twin.tokens(one).size());
        const uint32_t rows = std::min(room, pick(4) == 0 ? 1 + pick(40) : 1 + pick(3));
        if (rows == 0) continue;
        fresh.push_back({one, {}});
        for (uint32_t i = 0; i < rows; ++i) fresh.back().second.push_back(Token(pick(97)));
        kept.rows.emplace_back();
        // The state after a token depends on all tokens before it, so only the beginning of a chain
        // can be kept.
        kept.rows.back().resize(pick(rows + 1));
        std::iota(kept.rows.back().begin(), kept.rows.back().end(), 0U);
      }
      if (!fresh.empty()) twin.step(fresh, pick(4) == 0 ? nullptr : &kept);
    }
  }
  twin.check_all();
}

TEST(GroupedStore, AShortageInOneGroupLeavesAllAsTheyWere) {
  Twin twin("paged:block=4", kernels::DType::kF16, 20'000);
  const SeqId seq = twin.open();
  std::vector<Token> rows(10, 3);
  twin.add(seq, rows);
  const Usage before = twin.store().usage();
  const std::vector<Token> many(200, 1);
  const Slot slot = {.seq = seq, .fresh = 200, .tokens = many};
  EXPECT_FALSE(twin.store().begin({{&slot, 1}}).ok());
  EXPECT_EQ(twin.store().usage().used_bytes, before.used_bytes);
  EXPECT_EQ(twin.store().usage().allocated_bytes, before.allocated_bytes);
  twin.check_all();
}

TEST(GroupedStore, APromptGoesOnFromWhereEveryGroupCan) {
  Twin twin("paged:block=4", kernels::DType::kF16);
  const SeqId first = twin.open();
  std::vector<Token> text(37);
  std::iota(text.begin(), text.end(), 2);
  twin.add(first, text);
  twin.close(first);
  std::vector<Token> longer = text;
  longer.push_back(99);
  const SeqId again = twin.open(longer);
  EXPECT_EQ(twin.tokens(again).size(), text.size());  // in rows and states
  twin.check_all();
  std::vector<Token> other(text.begin(), text.begin() + 20);
  other.push_back(77);
  const SeqId apart = twin.open(other);
  EXPECT_EQ(twin.tokens(apart).size(), 0u);  // rows are cached up to 20, but no state
}

TEST(GroupedStore, PromptsThatLeaveAnEarlierOneGoOnFromItsCheckpoints) {
  Twin twin("paged:block=4", kernels::DType::kF16);
  Checkpoints* const checkpoints = twin.store().facets().checkpoints;
  ASSERT_NE(checkpoints, nullptr);
  EXPECT_TRUE(checkpoints->only_at_end());
  std::vector<Token> text(50);
  std::iota(text.begin(), text.end(), 2);
  const auto part = [&](size_t first, size_t end) {
    return std::vector<Token>(text.begin() + static_cast<ptrdiff_t>(first),
                              text.begin() + static_cast<ptrdiff_t>(end));
  };
  const SeqId first = twin.open();
  twin.add(first, part(0, 22));
  checkpoints->keep(first, 22);
  twin.add(first, part(22, 50));  // must not change the checkpoint's state
  EXPECT_EQ(twin.store().usage().checkpoints, 1u);
  const auto leaves_at = [&](size_t tokens) {
    std::vector<Token> prompt = part(0, tokens);
    prompt.insert(prompt.end(), 5, 90);
    return prompt;
  };
  const SeqId running = twin.open(leaves_at(31));
  EXPECT_EQ(twin.tokens(running).size(), 22u) << "while the first goes on";
  twin.add(running, {90, 91});
  const SeqId fork = twin.fork(running);
  twin.add(fork, {93});
  twin.close(first);
  const Opened opened = twin.store().open(leaves_at(40), {});
  EXPECT_EQ(opened.cached, 22u);
  EXPECT_EQ(opened.seen, 40u) << "where a checkpoint is wanted";
  twin.store().close(opened.seq);
  twin.check_all();
  EXPECT_EQ(twin.store().usage().resumed, 1u);
}

TEST(GroupedStore, GivesRowsAndCheckpointsBackOldestFirst) {
  Twin twin("paged:block=4", kernels::DType::kF16, 60'000);
  Checkpoints* const checkpoints = twin.store().facets().checkpoints;
  std::vector<std::vector<Token>> texts;
  for (Token one = 0; one < 20; ++one) {
    std::vector<Token>& text = texts.emplace_back(12);
    std::iota(text.begin(), text.end(), one * 4);
    const SeqId seq = twin.open(text);
    const std::vector<Token> rest(text.begin() + static_cast<ptrdiff_t>(twin.tokens(seq).size()),
                                  text.end());
    twin.add(seq, rest);
    checkpoints->keep(seq, 12);
    twin.close(seq);
    EXPECT_LE(twin.store().usage().allocated_bytes, 60'000u);
  }
  EXPECT_GT(twin.store().usage().evicted_bytes, 0u);
  std::vector<Token> again = texts.back();
  again.push_back(1);
  EXPECT_EQ(twin.tokens(twin.open(again)).size(), 12u) << "the newest is whole";
  EXPECT_EQ(twin.tokens(twin.open(texts.front())).size(), 0u) << "the oldest is not";
  twin.check_all();
}

}  // namespace
}  // namespace kvick::kv::test
