#pragma once
// Checks of the Ranks contract for any kind of ranks: each rank calls check_ranks once.

#include <gtest/gtest.h>
#include <random>

#include "model/ranks/ranks.h"

namespace kvick::model {

inline std::vector<float> random_part(unsigned rank, size_t count, uint32_t seed) {
  std::mt19937 random(seed * 97 + rank);
  std::vector<float> part(count);
  for (float& x : part) x = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31F;
  return part;
}

inline void check_sum(Ranks& ranks, size_t count, uint32_t seed) {
  const std::vector<float> own = random_part(ranks.rank(), count, seed);
  std::copy(own.begin(), own.end(), ranks.part(count));
  const float* const sum = ranks.sum();
  std::vector<float> expected = random_part(0, count, seed);
  for (unsigned r = 1; r < ranks.size(); ++r) {
    const std::vector<float> part = random_part(r, count, seed);
    for (size_t i = 0; i < count; ++i) expected[i] += part[i];
  }
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += sum[i] != expected[i];
  EXPECT_EQ(wrong, 0u) << "of " << count << " on rank " << ranks.rank();
}

inline void check_gather(Ranks& ranks, size_t count, uint32_t seed) {
  const auto size_of = [&](unsigned rank) { return count + rank; };
  const std::vector<float> own = random_part(ranks.rank(), size_of(ranks.rank()), seed);
  unsigned heard = 0;
  const auto take = [&](unsigned rank, std::span<const float> floats) {
    EXPECT_EQ(rank, ++heard);
    const std::vector<float> expected = random_part(rank, size_of(rank), seed);
    EXPECT_TRUE(std::ranges::equal(floats, expected)) << "of rank " << rank;
  };
  ranks.gather(own, take);
  EXPECT_EQ(heard, ranks.leads() ? ranks.size() - 1 : 0);
}

// Passes floats, or none, from each rank to the next; rank 0 begins.
inline void check_passing(Ranks& ranks, std::span<const size_t> counts, uint32_t seed) {
  const auto pass = [&] {
    for (size_t i = 0; i < counts.size(); ++i) {
      std::vector<float> floats = random_part(ranks.rank(), counts[i], seed);
      ranks.pass_on({.floats = floats, .more = i + 1 < counts.size()});
      std::ranges::fill(floats, 0.0F);
    }
  };
  const auto take = [&] {
    const unsigned before = (ranks.rank() + ranks.size() - 1) % ranks.size();
    for (size_t i = 0; i < counts.size(); ++i) {
      const Ranks::Passed passed = ranks.take_over();
      EXPECT_TRUE(std::ranges::equal(passed.floats, random_part(before, counts[i], seed)));
      EXPECT_EQ(passed.more, i + 1 < counts.size());
    }
  };
  if (ranks.leads()) pass();
  take();
  if (!ranks.leads()) pass();
}

inline std::vector<std::byte> message_of(size_t bytes, uint32_t seed) {
  std::vector<std::byte> message(bytes);
  for (size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(i * 31 + seed);
  return message;
}

inline void check_messages(Ranks& ranks, size_t bytes, uint32_t seed) {
  if (!ranks.leads()) {
    EXPECT_EQ(ranks.hear(), message_of(bytes, seed));
    ranks.answer(message_of(bytes + ranks.rank(), seed));
    return;
  }
  ranks.tell(message_of(bytes, seed));
  const auto answers = ranks.answers();
  ASSERT_EQ(answers.size(), ranks.size() - 1);
  for (unsigned r = 1; r < ranks.size(); ++r)
    EXPECT_EQ(answers[r - 1], message_of(bytes + r, seed)) << "of rank " << r;
}

inline void check_dealing(Ranks& ranks, size_t bytes, uint32_t seed) {
  const auto part_of = [&](unsigned rank) { return message_of(bytes * (rank - 1), seed + rank); };
  if (!ranks.leads()) {
    EXPECT_EQ(ranks.dealt(), part_of(ranks.rank()));
    return;
  }
  std::vector<std::vector<std::byte>> parts;
  for (unsigned r = 1; r < ranks.size(); ++r) parts.push_back(part_of(r));
  ranks.deal(std::vector<std::span<const std::byte>>(parts.begin(), parts.end()));
}

// One rank gives up, before or after part(). The other ranks learn of it, and all continue.
inline void check_failure(Ranks& ranks, unsigned failing, bool in_gather, bool has_part) {
  if (ranks.rank() == failing) {
    if (has_part) ranks.part(10);
    ranks.give_up();
  } else {
    const auto call = [&] {
      const auto take = [](unsigned, std::span<const float>) {};
      if (in_gather) return ranks.gather(std::vector<float>(10), take);
      ranks.part(10);
      ranks.sum();
    };
    EXPECT_THROW(call(), RankFailed) << "on rank " << ranks.rank();
  }
  check_messages(ranks, 3, 1);
}

inline void check_ranks(Ranks& ranks) {
  uint32_t seed = 0;
  for (const size_t count : {1, 5, 576, 8192, 8193, 100'000, 1'048'577})
    check_sum(ranks, count, ++seed);
  std::mt19937 random(7);  // the same sequence on all ranks
  for (int i = 0; i < 100; ++i) {
    const size_t count = 1 + random() % (i % 10 == 0 ? 40'000 : 3000);
    const size_t counts[] = {count, 0, 3 * count};
    switch (random() % 6) {
      case 0:
        check_gather(ranks, count, ++seed);
        break;
      case 1:
        check_messages(ranks, count, ++seed);
        break;
      case 3:
        check_dealing(ranks, count, ++seed);
        break;
      case 2:
        if (ranks.size() > 1) check_passing(ranks, counts, ++seed);
        break;
      default:
        check_sum(ranks, count, ++seed);
    }
  }
  check_messages(ranks, 300'000, ++seed);
  check_dealing(ranks, 200'000, ++seed);
  for (unsigned failing = 0; failing < ranks.size() && ranks.size() > 1; ++failing)
    for (const unsigned way : {0U, 1U, 2U, 3U}) {
      check_failure(ranks, failing, way % 2 == 1, way >= 2);
      check_sum(ranks, 100, ++seed);
    }
  const size_t large[] = {5'000'000, 0};
  if (ranks.size() > 1) check_passing(ranks, large, ++seed);
}

}  // namespace kvick::model
