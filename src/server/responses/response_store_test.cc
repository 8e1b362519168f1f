#include "server/responses/response_store.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <thread>
#include <vector>

namespace kvick::server {
namespace {

constexpr size_t kEntry = ResponseStore::kEntryBytes;

TEST(ResponseStore, GivesWhatWasPutToItsOwnerOnly) {
  ResponseStore store(1 << 20);
  EXPECT_TRUE(store.put("a", 1, {"{}", "[1]"}));
  ASSERT_NE(store.find("a", 1), nullptr);
  EXPECT_EQ(store.find("a", 1)->input, "[1]");
  EXPECT_EQ(store.find("a", 2), nullptr);
  EXPECT_FALSE(store.erase("a", 2));
  EXPECT_FALSE(store.put("a", 2, {"{}", "[2]"}));
  EXPECT_TRUE(store.erase("a", 1));
  EXPECT_EQ(store.find("a", 1), nullptr);
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, RefusesWhatIsLargerThanItAndKeepsTheOthers) {
  ResponseStore store(2 * kEntry);
  EXPECT_TRUE(store.put("a", 0, {"x", ""}));
  EXPECT_FALSE(store.put("b", 0, {std::string(2 * kEntry, 'x'), ""}));
  EXPECT_NE(store.find("a", 0), nullptr);
}

TEST(ResponseStore, KeepsWhatIsHeldWholeThoughItIsDropped) {
  ResponseStore store(1 << 20, 1);
  store.put("a", 0, {"answer", ""});
  const auto held = store.find("a", 0);
  store.put("b", 0, {"other", ""});
  EXPECT_EQ(store.find("a", 0), nullptr);
  EXPECT_EQ(held->response, "answer");
}

// The slow twin: a list in the order of use.
class SlowStore {
 public:
  SlowStore(size_t bytes, size_t responses) : bytes_(bytes), responses_(responses) {}
  bool put(const std::string& id, size_t owner, size_t size) {
    if (size > bytes_) return false;
    for (const One& one : list_)
      if (one.id == id) return false;
    list_.insert(list_.begin(), {id, owner, size});
    while (total() > bytes_ || list_.size() > responses_) list_.pop_back();
    return true;
  }
  bool use(const std::string& id, size_t owner, bool erases) {
    for (size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].id != id || list_[i].owner != owner) continue;
      const One one = list_[i];
      list_.erase(list_.begin() + static_cast<ptrdiff_t>(i));
      if (!erases) list_.insert(list_.begin(), one);
      return true;
    }
    return false;
  }
  size_t total() const {
    size_t sum = 0;
    for (const One& one : list_) sum += one.size;
    return sum;
  }
  size_t size() const { return list_.size(); }

 private:
  struct One {
    std::string id;
    size_t owner, size;
  };
  std::vector<One> list_;
  size_t bytes_, responses_;
};

TEST(ResponseStore, DropsWhatWasUsedLongestAgoWhateverIsAsked) {
  EXPECT_TRUE(rc::check("as a list in the order of use", [] {
    const size_t bytes = kEntry * static_cast<size_t>(*rc::gen::inRange(1, 8));
    const auto responses = static_cast<size_t>(*rc::gen::inRange(1, 6));
    ResponseStore store(bytes, responses);
    SlowStore slow(bytes, responses);
    const int steps = *rc::gen::inRange(0, 60);
    for (int i = 0; i < steps; ++i) {
      const std::string id(1, static_cast<char>('a' + *rc::gen::inRange(0, 8)));
      const auto owner = static_cast<size_t>(*rc::gen::inRange(0, 2));
      const int what = *rc::gen::inRange(0, 4);
      if (what < 2) {
        const auto text = static_cast<size_t>(*rc::gen::inRange(0, 1500));
        RC_ASSERT(store.put(id, owner, {std::string(text, 'x'), "[]"}) ==
                  slow.put(id, owner, kEntry + 1 + text + 2));
      } else if (what == 2) {
        RC_ASSERT((store.find(id, owner) != nullptr) == slow.use(id, owner, false));
      } else {
        RC_ASSERT(store.erase(id, owner) == slow.use(id, owner, true));
      }
      RC_ASSERT(store.size() == slow.size());
      RC_ASSERT(store.bytes() == slow.total());
      RC_ASSERT(store.bytes() <= bytes);
    }
  }));
}

TEST(ResponseStore, StaysBoundedUnderSeveralThreads) {
  ResponseStore store(20 * kEntry);
  std::vector<std::thread> threads;
  for (size_t owner = 0; owner < 4; ++owner)
    threads.emplace_back([&store, owner] {
      for (int i = 0; i < 500; ++i) {
        const std::string id = std::to_string(owner) + "_" + std::to_string(i);
        store.put(id, owner, {id, "[]"});
        const auto found = store.find(id, owner);
        EXPECT_TRUE(found == nullptr || found->response == id);
        if (i % 3 == 0) store.erase(id, owner);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(store.bytes(), 20 * kEntry);
  EXPECT_GT(store.size(), 0U);
}

}  // namespace
}  // namespace kvick::server
