// Ranks that run out of memory or threads in the middle of a call.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "model/core/test_runner.h"
#include "model/parallel/test_passing_store.h"
#include "model/parallel/test_team.h"
#include "model/ranks/test_shared.h"

namespace {

thread_local bool no_memory = false;  // the next allocation of this thread fails
thread_local unsigned spared = 0;     // allocations that succeed before it

void* allocate(size_t bytes) {
  if (no_memory && spared > 0)
    --spared;
  else if (std::exchange(no_memory, false))
    return nullptr;
  return std::malloc(bytes > 0 ? bytes : 1);
}

}  // namespace

void* operator new(size_t bytes) {
  if (void* const made = allocate(bytes)) return made;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, size_t) noexcept { std::free(at); }

namespace kvick::model {
namespace {

// Rank 0 of two ranks; the test provides the other rank's answers.
class GivenAnswers final : public Ranks {
 public:
  GivenAnswers() : Ranks(0, 2) {}
  void tell(std::span<const std::byte> message) override {
    last_order = MessageReader(message).take<Order>();
    no_memory = none_once_told;
  }
  std::vector<std::vector<std::byte>> answers(bool) override {
    no_memory = false;
    ++read;
    if (none_for_answers) throw std::bad_alloc();
    return {{answer_of_other.bytes().begin(), answer_of_other.bytes().end()}};
  }
  float* part(size_t) override { return nullptr; }
  const float* sum() override { return nullptr; }
  void gather(std::span<const float>, Take) override {}
  void give_up() override {}
  void pass_on(Passed) override {}
  Passed take_over() override { return {}; }
  std::vector<std::byte> hear() override { return {}; }
  void answer(std::span<const std::byte>) override {}
  void deal(std::span<const std::span<const std::byte>>) override {}
  std::vector<std::byte> dealt() override { return {}; }

  MessageWriter answer_of_other;
  bool none_once_told = false;  // no memory from the order until the answers are read
  bool none_for_answers = false;
  Order last_order = Order::kEnd;
  int read = 0;
};

TEST(RankedStore, NeedsNoMemoryBetweenTheOrderToBeginAndItsAnswers) {
  kv::Setup setup;
  setup.shape = {.layers = 1, .kv_heads = 1, .head_dim = 8, .max_tokens = 64};
  GivenAnswers ranks;
  const std::vector<RankRows> others(1);
  RankedStore store(ranks, 5, kv::make_store(*kv::parse_spec("virtual"), setup).value(), others);
  ranks.answer_of_other.add(true);
  ranks.answer_of_other.add(uint32_t{0});
  ranks.answer_of_other.add(uint32_t{0});
  const kv::Slot slots[] = {{.seq = store.open({}, {}).seq, .fresh = 1}};
  ranks.answer_of_other = {};
  add_shortage(ranks.answer_of_other, nullptr);
  ranks.answer_of_other.add_list(std::span<const kv::SeqId>());
  ranks.none_once_told = true;
  EXPECT_NO_THROW({
    const auto step = store.begin({.slots = slots});
    ranks.none_once_told = false;  // for the order that drops the step
    EXPECT_TRUE(step.ok());
  });
  EXPECT_EQ(ranks.read, 2);
  ranks.none_once_told = no_memory = false;
}

TEST(RankedStore, LeavesNoSequenceOpenIfItHasNoMemoryForTheAnswers) {
  kv::Setup setup;
  setup.shape = {.layers = 1, .kv_heads = 1, .head_dim = 8, .max_tokens = 64};
  GivenAnswers ranks;
  const std::vector<RankRows> others(1);
  RankedStore store(ranks, 5, kv::make_store(*kv::parse_spec("virtual"), setup).value(), others);
  ranks.answer_of_other.add(true);
  ranks.answer_of_other.add(uint32_t{0});
  ranks.answer_of_other.add(uint32_t{0});
  const kv::SeqId seq = store.open({}, {}).seq;
  ranks.none_for_answers = true;
  EXPECT_THROW((void)store.open({}, {}), std::bad_alloc);
  EXPECT_EQ(ranks.last_order, Order::kClose);
  EXPECT_EQ(store.usage().sequences, 1U);
  EXPECT_THROW((void)store.fork(seq), std::bad_alloc);
  EXPECT_EQ(ranks.last_order, Order::kClose);
  EXPECT_EQ(store.usage().sequences, 1U);
}

constexpr unsigned kOrders = 7;

std::vector<std::byte> order_of(unsigned number) {
  return std::vector<std::byte>(1, static_cast<std::byte>(number));
}

// A message of four pieces.
std::vector<std::byte> long_message(unsigned rank, unsigned number) {
  return std::vector<std::byte>(200'000, static_cast<std::byte>(16 * rank + number));
}

// In each order but the last, the next allocation fails: those of the two answers, and of their
// list.
TEST(SharedRanks, ReadAllAnswersThoughThereIsNoMemoryForOne) {
  ThreadRanks ranks(3);
  std::vector<std::thread> others;
  for (const unsigned rank : {1U, 2U})
    others.emplace_back([&ranks, rank] {
      for (unsigned number = 0; number < kOrders; ++number) {
        EXPECT_EQ(ranks[rank].hear(), order_of(number));
        ranks[rank].answer(long_message(rank, number));
      }
    });
  unsigned failed = 0;
  for (unsigned number = 0; number < kOrders; ++number) {
    ranks[0].tell(order_of(number));
    const std::vector<std::vector<std::byte>> expected = {long_message(1, number),
                                                          long_message(2, number)};
    try {
      no_memory = number + 1 < kOrders;
      spared = number;
      const std::vector<std::vector<std::byte>> answers = ranks[0].answers();
      no_memory = false;
      EXPECT_EQ(answers, expected) << "of order " << number;
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    spared = 0;
  }
  for (std::thread& other : others) other.join();
  EXPECT_GE(failed, 3U);
}

TEST(SharedRanks, ReadAllPartsThoughThereIsNoMemoryForTheirOwn) {
  ThreadRanks ranks(3);
  std::vector<std::thread> others;
  for (const unsigned rank : {1U, 2U})
    others.emplace_back([&ranks, rank] {
      no_memory = rank == 1;
      spared = 1;  // the lengths
      if (rank == 1)
        EXPECT_THROW((void)ranks[rank].dealt(), std::bad_alloc);
      else
        EXPECT_EQ(ranks[rank].dealt(), long_message(2, 0));
      no_memory = false;
      EXPECT_EQ(ranks[rank].hear(), order_of(5));
    });
  const std::vector<std::byte> first = long_message(1, 0), second = long_message(2, 0);
  const std::span<const std::byte> parts[] = {first, second};
  ranks[0].deal(parts);
  ranks[0].tell(order_of(5));
  for (std::thread& other : others) other.join();
}

TEST(SharedRanks, ReadAllThatIsPassedInAStepThoughThereIsNoMemoryForAPiece) {
  ThreadRanks ranks(2);
  const std::vector<float> piece(50'000, 1.0F), next(50'000, 2.0F);
  std::thread first([&] {
    for (const bool more : {true, true, false}) ranks[0].pass_on({.floats = piece, .more = more});
    ranks[0].pass_on({.floats = next});
  });
  no_memory = true;
  EXPECT_THROW((void)ranks[1].take_over(), std::bad_alloc);
  const Ranks::Passed passed = ranks[1].take_over();
  EXPECT_TRUE(std::ranges::equal(passed.floats, next));
  EXPECT_FALSE(passed.more);
  first.join();
}

// Runs out of memory right after it has opened its first sequence, and right after it has made its
// first fork. Records how many sequences are open after each call.
class FullOnceMade final : public PassingStore<PassingStep> {
 public:
  FullOnceMade(std::unique_ptr<kv::Store> inner, std::vector<uint64_t>& open)
      : PassingStore(std::move(inner)), open_(open) {}
  kv::Opened open(std::span<const Token> prompt, const kv::Owner& owner) override {
    const kv::Opened opened = inner_->open(prompt, owner);
    open_.push_back(inner_->usage().sequences);
    no_memory = open_.size() == 1;
    return opened;
  }
  base::Result<kv::SeqId, kv::Shortage> fork(kv::SeqId seq) override {
    auto made = inner_->fork(seq);
    open_.push_back(inner_->usage().sequences);
    no_memory = open_.size() == 3;
    return made;
  }

 private:
  std::vector<uint64_t>& open_;
};

TEST(Follower, LeavesNoSequenceOpenThatItHasNoMemoryToKnow) {
  std::vector<uint64_t> open;  // rank 1 writes it before it answers
  const auto change = [&](unsigned r, std::unique_ptr<kv::Store> store) {
    if (r == 0) return store;
    return std::unique_ptr<kv::Store>(std::make_unique<FullOnceMade>(std::move(store), open));
  };
  Team team(model_path(Arch::kLlama, kernels::DType::kF32), 2, "virtual", kernels::DType::kF16,
            change);
  EXPECT_THROW((void)team.store->open({}), std::bad_alloc);
  const kv::SeqId seq = team.store->open({}).seq;
  const auto fork = team.store->fork(seq);
  ASSERT_FALSE(fork.ok());
  EXPECT_TRUE(fork.error().out_of_memory);
  ASSERT_TRUE(team.store->fork(seq).ok());
  EXPECT_EQ(open, (std::vector<uint64_t>{1, 1, 2, 2}));
}

TEST(Follower, SaysWhyItCouldNotMakeAStoreAndGoesOn) {
  int made = 0;  // stores of rank 1
  const auto change = [&](unsigned r, std::unique_ptr<kv::Store> store) {
    if (r == 1 && ++made == 2)
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                              "no thread");
    return store;
  };
  Team team(model_path(Arch::kLlama, kernels::DType::kF32), 2, "virtual", kernels::DType::kF16,
            change);
  Ranks& ranks = *team.model().ranks();
  MessageWriter message(Order::kMakeStore);
  message.add(uint32_t{6});
  message.add_text("virtual");
  ranks.tell(message.bytes());
  const std::vector<std::vector<std::byte>> answers = ranks.answers();
  ASSERT_EQ(answers.size(), 1U);
  const std::string why = MessageReader(answers[0]).take_text();
  EXPECT_TRUE(why.starts_with("no thread")) << why;
  const kv::SeqId seq = team.store->open({}).seq;
  EXPECT_TRUE(team.store->fork(seq).ok());
}

class NoMemoryForFirstStep final : public PassingStore<PassingStep> {
 public:
  using PassingStore::PassingStore;
  base::Result<std::unique_ptr<kv::Step>, kv::Shortage> begin(const kv::Batch& batch) override {
    if (!std::exchange(asked_, true)) throw std::bad_alloc();
    return PassingStore::begin(batch);
  }

 private:
  bool asked_ = false;
};

TEST(Follower, AnswersWithAShortageIfItHasNoMemoryForAStep) {
  const auto change = [](unsigned r, std::unique_ptr<kv::Store> store) {
    if (r == 0) return store;
    return std::unique_ptr<kv::Store>(std::make_unique<NoMemoryForFirstStep>(std::move(store)));
  };
  Team team(model_path(Arch::kLlama, kernels::DType::kF32), 2, "virtual", kernels::DType::kF16,
            change);
  const kv::Slot slots[] = {{.seq = team.store->open({}).seq, .fresh = 1}};
  const auto none = team.store->begin({.slots = slots});
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(none.error().out_of_memory);
  EXPECT_TRUE(team.store->begin({.slots = slots}).ok());
}

}  // namespace
}  // namespace kvick::model
