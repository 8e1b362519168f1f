#include "engine/prefix/prefix_events.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using Kind = PrefixEvent::Kind;
using Tokens = std::vector<kv::Token>;

void store(PrefixEvents& events, uint64_t id, uint64_t parent = 0, const Tokens& tokens = {1}) {
  events.stored({.id = id, .parent = parent, .tokens = tokens});
}

// The blocks that a reader of all events believes to be stored.
struct Reader {
  std::set<uint64_t> there;
  void read(PrefixEvents& events) {
    for (const PrefixEvent& event : events.take()) {
      if (event.kind == Kind::kCleared) there.clear();
      if (event.kind == Kind::kStored) there.insert(event.id);
      if (event.kind == Kind::kRemoved) there.erase(event.id);
    }
  }
};

TEST(PrefixEvents, BeginByForgettingWhatWas) {
  PrefixEvents events;
  store(events, 7, 3, {4, 5});
  events.removed(7);
  const auto all = events.take();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].kind, Kind::kCleared);
  EXPECT_EQ(all[1].kind, Kind::kStored);
  EXPECT_EQ(all[1].parent, 3u);
  EXPECT_EQ(all[1].tokens, (Tokens{4, 5}));
  EXPECT_EQ(all[2].kind, Kind::kRemoved);
  EXPECT_EQ(all[2].id, 7u);
  EXPECT_TRUE(events.take().empty());
}

TEST(PrefixEvents, KeepABlockAsLongAsOneStoreHasIt) {
  PrefixEvents events;
  Reader reader;
  store(events, 7), store(events, 7);
  events.removed(7);
  reader.read(events);
  EXPECT_TRUE(reader.there.contains(7));
  events.removed(7);
  reader.read(events);
  EXPECT_TRUE(reader.there.empty());
}

TEST(PrefixEvents, CallOnceUntilTheyAreTaken) {
  PrefixEvents events;
  int calls = 0;
  events.on_some([&] { ++calls; });
  store(events, 1), store(events, 2);
  EXPECT_EQ(calls, 1);
  events.take();
  store(events, 3);
  EXPECT_EQ(calls, 2);
  events.on_some(nullptr);
  events.take();
  store(events, 4);
  EXPECT_EQ(calls, 2);
}

// Whatever is dropped, the reader never believes that a removed block is stored, and it knows all
// blocks that were stored after its last read.
TEST(PrefixEvents, NeverMisleadAReaderThatIsTooSlow) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    PrefixEvents events(8);
    Reader reader;
    std::map<uint64_t, int> truth;
    for (int i = 0; i < 100; ++i) {
      const uint64_t id = 1 + random() % 6;
      if (random() % 2 == 0) {
        ++truth[id];
        store(events, id);
      } else if (truth[id] > 0) {
        --truth[id];
        events.removed(id);
      }
      if (random() % 10 == 0) reader.read(events);
    }
    reader.read(events);
    for (const uint64_t id : reader.there) EXPECT_GT(truth[id], 0) << id;
    for (uint64_t id = 10; id < 14; ++id) store(events, id);
    reader.read(events);
    for (uint64_t id = 10; id < 14; ++id) EXPECT_TRUE(reader.there.contains(id));
  }
}

TEST(PrefixEvents, AreOfWhatPromptsWithoutASaltFind) {
  const auto engine = tiny_engine();
  const auto events = std::make_shared<PrefixEvents>();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "").value();
  options.kv.watcher = events;
  Reader reader;
  {
    const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
    const auto answer = [&](const std::string& salt) {
      Job job = test::job_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2);
      job.salt = salt;
      test::Heard heard;
      test::listen(job, heard);
      scheduler->add(JobId{1}, std::move(job));
      test::run_all(*scheduler);
    };
    answer("secret");
    reader.read(*events);
    EXPECT_TRUE(reader.there.empty());
    answer("");
    const auto all = events->take();
    ASSERT_EQ(all.size(), 2u);  // whole blocks
    EXPECT_EQ(all[0].tokens, (Tokens{1, 2, 3, 4}));
    EXPECT_EQ(all[0].parent, 0u);
    EXPECT_EQ(all[1].tokens, (Tokens{5, 6, 7, 8}));
    EXPECT_EQ(all[1].parent, all[0].id);
    scheduler->flush();
    EXPECT_EQ(events->take().size(), 2u);
    answer("");
    EXPECT_EQ(events->take().size(), 2u);
  }
  EXPECT_EQ(events->take().size(), 2u);  // gone with the store
  EXPECT_EQ(events->dropped(), 0u);
}

}  // namespace
}  // namespace kvick::engine
