// Compares stores with windows, which give memory back in blocks, units and groups, with a trivial
// model: what steps show, and how much is held after each commit. KVICK_TEST_SEED repeats a run
// that failed.

#include <cstdlib>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "kv/strategy/budget.h"
#include "kv/strategy/facet_calls.h"
#include "kv/testing/cases.h"
#include "kv/testing/shown.h"

namespace kvick::kv::test {
namespace {

struct Window {
  uint32_t tokens;
  bool chunked = false;
};
constexpr Window kWindows[] = {{1}, {8}, {300}, {16, true}, {64, true}};

struct WindowCase {
  std::string spec;
  Shape shape;
};

std::vector<WindowCase> window_cases() {
  using kernels::DType;
  const Shape rows = {.layers = 2, .kv_heads = 2, .head_dim = 16, .max_tokens = 420};
  Shape small_values = rows, latent = rows;
  small_values.v_dim = 8;
  latent.latent = true;
  latent.v_dim = 12;
  Shape aged = small_values, aged_groups = rows, recent_groups = rows;
  aged.head_dim = aged.v_dim = 32;
  aged.aging = Aging{.k_type = DType::kQ8, .v_type = DType::kQ4, .window = 32};
  aged_groups.head_dim = 32;
  aged_groups.aging = Aging{.k_type = DType::kKivi4K, .v_type = DType::kKivi4V, .window = 0};
  recent_groups.head_dim = 32;
  recent_groups.aging = Aging{.k_type = DType::kKivi4K, .v_type = DType::kKivi4V, .window = 32};
  std::vector<WindowCase> all;
  for (const char* spec : {"paged:block=1", "paged:block=7", "paged:block=16,evict=lfu", "sliding",
                           "sliding:reserve=1.25", "sliding:reserve=1", "tiered"})
    for (const Shape& shape : {small_values, latent}) all.push_back({spec, shape});
  for (const Shape& shape : {aged, aged_groups, recent_groups})
    all.push_back({"paged:block=7", shape});
  std::vector<WindowCase> cases;
  for (const Window& window : kWindows)
    for (WindowCase one : all) {
      one.shape.window = window.tokens;
      one.shape.chunked = window.chunked;
      cases.push_back(one);
    }
  return cases;
}

void PrintTo(const WindowCase& test, std::ostream* out) {  // NOLINT: googletest's name
  *out << test.spec << " window " << test.shape.window << (test.shape.chunked ? " chunked" : "")
       << (test.shape.latent ? " latent" : "") << (test.shape.aging ? " aged" : "");
}

uint64_t round_up(uint64_t rows, uint64_t unit) { return (rows + unit - 1) / unit * unit; }

// Returns the most bytes that a sequence may hold between steps.
uint64_t bound(const WindowCase& test) {
  const Shape& shape = test.shape;
  const uint64_t token = shape.token_bytes(), window = shape.window;
  const size_t at = test.spec.find("block=");
  const uint64_t block = at != std::string::npos ? std::stoul(test.spec.substr(at + 6)) : 0;
  if (shape.aging) {
    const Shape old = shape.of_old_rows();
    return shape.aging->recent_rows() * token +
           (round_up(old.window, block) + block) * old.token_bytes();
  }
  if (block > 0) return (round_up(window, block) + block) * token;
  if (test.spec == "tiered") return 8 * token;  // rows that are in the tier count as cached
  const uint64_t most = std::min<uint64_t>(window, shape.max_tokens);
  return 2 * (most - 1) * token;
}

class WindowPlayer {
 public:
  WindowPlayer(const WindowCase& test, uint32_t seed)
      : test_(test), shape_(test.shape), random_(seed) {
    Setup setup = setup_for(test.spec, shape_);
    const Spec spec = spec_of(test.spec);
    const uint64_t two = cost_of(spec, setup, {shape_.max_tokens, 2}).value().fast_bytes;
    // Room for two full sequences, and for one step of 120 rows or two.
    budget_ = std::make_shared<Budget>(two + 200 * shape_.token_bytes());
    setup.limits.budget = budget_;
    store_ = make_store(spec, setup).value();
    if (find_strategy(spec.name)->traits.endless) most_held_ = shape_.max_tokens - 1;
  }

  void play(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      const uint32_t dice = below(100);
      if (twin_.empty() || dice < 8) {
        open();
      } else if (dice < 14) {
        fork(any());
      } else if (dice < 20) {
        close(any());
      } else {
        step();
      }
      check();
    }
    while (!twin_.empty()) close(any());
    EXPECT_EQ(store_->usage().allocated_bytes, store_->usage().cached_bytes);
    EXPECT_EQ(budget_->used(), store_->usage().allocated_bytes);
  }

  uint64_t found = 0;     // prompt tokens whose rows were cached
  uint64_t was_seen = 0;  // committed rows compared

 private:
  struct Model {
    Rows rows;
  };

  uint32_t below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  SeqId any() {
    return std::next(twin_.begin(), below(static_cast<uint32_t>(twin_.size())))->first;
  }
  // A row encodes its position and one of two tokens, so that prompts often share a prefix.
  Row row_at(uint32_t at) { return 1 + 2 * at + (below(40) == 0 ? 1 : 0); }

  void open() {
    if (twin_.size() >= 5) return;
    Rows prompt = below(3) > 0 ? last_ : Rows();
    while (prompt.size() < 300 && below(20) > 0)
      prompt.push_back(row_at(static_cast<uint32_t>(prompt.size())));
    const std::vector<Token> tokens(prompt.begin(), prompt.end());
    const Opened opened = store_->open(tokens, {});
    prompt.resize(opened.cached);
    found += opened.cached;
    twin_[opened.seq].rows = prompt;
  }
  void fork(SeqId seq) {
    if (twin_.size() >= 5) return;
    const auto forked = store_->fork(seq);
    if (forked.ok()) twin_[*forked].rows = twin_[seq].rows;
  }
  void close(SeqId seq) {
    last_ = twin_[seq].rows;
    store_->close(seq);
    twin_.erase(seq);
  }

  void step() {
    std::vector<Slot> slots;
    std::vector<Rows> fresh;
    for (auto& [seq, model] : twin_) {
      const auto length = static_cast<uint32_t>(model.rows.size());
      const uint32_t n = std::min(1 + below(below(6) == 0 ? 120 : 5), shape_.max_tokens - length);
      if (n == 0 || below(2) == 0) continue;
      Rows& rows = fresh.emplace_back();
      for (uint32_t i = 0; i < n; ++i) rows.push_back(row_at(length + i));
      slots.push_back({.seq = seq, .fresh = n, .tokens = {}});
    }
    if (slots.empty()) return;
    std::vector<std::vector<Token>> tokens;
    for (size_t s = 0; s < slots.size(); ++s) {
      tokens.emplace_back(fresh[s].begin(), fresh[s].end());
      if (below(30) > 0) slots[s].tokens = tokens[s];
    }
    auto step = store_->begin({slots});
    if (!step.ok()) return;
    Rows all;
    for (const Rows& rows : fresh) all.insert(all.end(), rows.begin(), rows.end());
    write_all(**step, shape_, all);
    for (uint32_t s = 0; s < slots.size(); ++s) expect_shows(**step, s, slots[s].seq, fresh[s]);
    if (below(6) == 0) return;
    Kept kept = Kept::all({slots});
    const uint32_t kind = below(4);
    for (size_t s = 0; s < slots.size(); ++s) {
      auto& rows = kept.rows[s];
      if (kind == 1) rows.resize(below(static_cast<uint32_t>(rows.size()) + 1));
      if (kind == 2) std::erase_if(rows, [this](uint32_t) { return below(2) == 0; });
      for (const uint32_t row : rows) twin_[slots[s].seq].rows.push_back(fresh[s][row]);
    }
    (*step)->commit(kept);
  }

  // Returns the bytes of the rows from `first` on; old rows are in their old types.
  std::vector<std::byte> expected(const Rows& rows, uint32_t first, const Query& query,
                                  bool is_v) const {
    const auto length = static_cast<uint32_t>(rows.size());
    const uint32_t old = shape_.aging ? shape_.aging->old_rows(length) : 0;
    std::vector<std::byte> bytes = bytes_of(shape_, rows, query.layer, query.head, is_v, old);
    Shape each = shape_;
    each.latent = false;  // a latent row's value has its own bytes, in the key
    const size_t row = each.row_bytes(is_v);
    const size_t old_row = shape_.aging ? each.of_old_rows().row_bytes(is_v) : row;
    const uint32_t old_gone = std::min(first, old);
    const size_t gone = old_gone * old_row + (first - old_gone) * row;
    return {bytes.begin() + static_cast<ptrdiff_t>(gone), bytes.end()};
  }

  void expect_shows(Step& step, uint32_t slot, SeqId seq, const Rows& fresh) {
    const Rows& rows = twin_[seq].rows;
    const auto length = static_cast<uint32_t>(rows.size());
    uint32_t first = std::max(shape_.first_seen(length), length - std::min(length, most_held_));
    if (shape_.aging && first < shape_.aging->old_rows(length))  // whole groups of old keys
      first -= first % kernels::rows_together(shape_.aging->k_type);
    Rows step_slots(length - first);
    std::iota(step_slots.begin(), step_slots.end(), first);
    was_seen += step_slots.size();
    base::Arena scratch;
    kernels::View view;
    for (uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
        const Query query = {.slot = slot, .layer = layer, .head = head};
        step.view(query, scratch, view);
        ASSERT_EQ(positions(view), step_slots);
        for (const bool is_v : {false, true}) {
          std::vector<std::byte> bytes = expected(rows, first, query, is_v);
          const auto added = bytes_of(shape_, fresh, layer, head, is_v);
          bytes.insert(bytes.end(), added.begin(), added.end());
          ASSERT_TRUE(are_same(gather(view, shape_, is_v), bytes))
              << "layer " << layer << " head " << head;
        }
      }
  }

  void check() {
    const Usage usage = store_->usage();
    uint64_t most = 0, used = 0, mapped = 0;
    for (const auto& [seq, model] : twin_) {
      ASSERT_EQ(store_->length(seq), model.rows.size());
      most += bound(test_);
      used += shape_.used_bytes(static_cast<uint32_t>(model.rows.size()));
    }
    ASSERT_LE(usage.allocated_bytes - usage.cached_bytes, most);
    ASSERT_LE(usage.used_bytes + usage.cached_bytes, usage.allocated_bytes);
    ASSERT_LE(usage.used_bytes, used);
    ASSERT_EQ(usage.allocated_bytes, budget_->used());
    for (const MapEntry& piece : map_of(*store_)) {
      mapped += piece.bytes;
      ASSERT_LE(piece.used_tokens, piece.tokens);
    }
    ASSERT_EQ(mapped, usage.allocated_bytes);
  }

  WindowCase test_;
  Shape shape_;
  std::mt19937 random_;
  std::shared_ptr<Budget> budget_;
  std::unique_ptr<Store> store_;
  std::map<SeqId, Model> twin_;
  Rows last_;  // rows of the sequence that was closed last
  uint32_t most_held_ = UINT32_MAX;
};

class Windows : public testing::TestWithParam<WindowCase> {};
INSTANTIATE_TEST_SUITE_P(All, Windows, testing::ValuesIn(window_cases()));

TEST_P(Windows, RandomProgramsAgreeWithTheTrivialModelAndStayWithinTheBound) {
  const char* given = std::getenv("KVICK_TEST_SEED");
  const uint32_t from = given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                                         : std::random_device{}();
  const bool finds = GetParam().spec.starts_with("paged") && !GetParam().shape.aging;
  uint64_t found = 0, seen = 0;
  constexpr uint32_t kRounds = kSanitized ? 1 : 2, kMostRounds = 20;
  // A random program may open no prompt whose rows are still cached; then more programs run.
  for (uint32_t round = 0; round < kRounds || (finds && found == 0 && round < kMostRounds);
       ++round) {
    SCOPED_TRACE("KVICK_TEST_SEED=" + std::to_string(from + round));
    WindowPlayer player(GetParam(), from + round);
    player.play(150);
    found += player.found;
    seen += player.was_seen;
    if (HasFatalFailure()) return;
  }
  if (GetParam().shape.window > 1) {
    EXPECT_GT(seen, 0u);
  }
  if (finds) {
    EXPECT_GT(found, 0u);
  }
}

}  // namespace
}  // namespace kvick::kv::test
