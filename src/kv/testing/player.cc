#include "kv/testing/player.h"

namespace kvick::kv::test {

void Player::play(int operations, base::FunctionRef<void()> after) {
  for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
    const uint32_t dice = below(100);
    if (pair_.twin.empty() || dice < 8) {
      if (pair_.twin.size() < 6) pair_.open();
    } else if (dice < 16) {
      fork(any());
    } else if (dice < 24) {
      pair_.close(any());
    } else if (dice < 30 && traits_.moves_rows && pair_.store->facets().rows != nullptr) {
      move(any(), any());
    } else {
      step();
    }
    check();
    after();
  }
  while (!pair_.twin.empty()) pair_.close(any());
  EXPECT_EQ(pair_.store->usage().allocated_bytes, pair_.store->usage().cached_bytes);
}

void Player::fork(SeqId seq) {
  if (pair_.twin.size() >= 6) return;
  const Usage before = pair_.store->usage();
  const auto forked = pair_.store->fork(seq);
  if (!forked.ok()) return failed(before, forked.error());
  pair_.twin[*forked] = pair_.twin[seq];
  pair_.fed[*forked] = pair_.fed[seq];
}

void Player::move(SeqId from, SeqId to) {
  const Rows& rows = pair_.twin[from];
  const uint32_t first = below(static_cast<uint32_t>(rows.size()) + 1);
  const uint32_t count = below(static_cast<uint32_t>(rows.size()) - first + 1);
  const Usage before = pair_.store->usage();
  const Rows moved(rows.begin() + first, rows.begin() + first + count);
  const std::vector<std::byte> bytes = pair_.read(from, first, count);
  if (!pair_.append(to, moved, bytes)) return failed(before, pair_.shortage);
  ASSERT_TRUE(pair_.read(to, pair_.store->length(to) - count, count) == bytes);
}

std::vector<Slot> Player::slots() {
  std::vector<Slot> all;
  for (const auto& [seq, rows] : pair_.twin)
    if (below(2) == 0) all.push_back({seq, 1 + below(below(6) == 0 ? 120 : 5)});
  if (all.empty()) all.push_back({any(), 1});
  std::shuffle(all.begin(), all.end(), random_);
  return all;
}

Kept Player::kept() {
  Kept kept = Kept::all({pair_.slots});
  const uint32_t kind = below(3);
  for (auto& rows : kept.rows) {
    if (kind == 1) rows.resize(below(static_cast<uint32_t>(rows.size()) + 1));       // a chain
    if (kind == 2) std::erase_if(rows, [this](uint32_t) { return below(2) == 0; });  // a tree
  }
  return kept;
}

void Player::step() {
  const Usage before = pair_.store->usage();
  auto step = pair_.begin(slots());
  if (step == nullptr) return failed(before, pair_.shortage);
  for (const Slot& slot : pair_.slots) step_rows_[slot.seq].begun = slot.fresh;
  EXPECT_LE(pair_.store->usage().allocated_bytes, budget_->used());
  std::vector<uint32_t> layers = {0, 1};
  std::shuffle(layers.begin(), layers.end(), random_);
  const bool all = below(8) != 0;
  if (!all) layers.pop_back();
  for (const uint32_t layer : layers) write_layer(*step, pair_.shape, pair_.fresh, layer);
  EXPECT_LE(pair_.store->usage().allocated_bytes, budget_->used());
  if (!all) return;
  pair_.expect_shown(*step);
  if (below(4) == 0) return;
  pair_.observe(*step);
  pair_.commit(*step, kept());
  for (const Slot& slot : pair_.slots) step_rows_[slot.seq].committed = slot.fresh;
}

void Player::failed(const Usage& before, const Shortage& shortage) {
  ++shortages_;
  EXPECT_GT(shortage.needed_bytes, shortage.available_bytes) << shortage.what;
  Usage after = pair_.store->usage();
  const bool has_policy = pair_.shows_rows && !pair_.shows_all;
  if (has_policy) {  // summaries may have evicted cached rows before rows found no room
    EXPECT_LE(after.cached_bytes, before.cached_bytes);
    after.allocated_bytes += before.cached_bytes - after.cached_bytes;
    after.cached_bytes = before.cached_bytes;
    EXPECT_LE(after.metadata_bytes, before.metadata_bytes);  // their entries were evicted with them
    after.metadata_bytes = before.metadata_bytes;
    EXPECT_GE(after.evicted_bytes, before.evicted_bytes);
    after.evicted_bytes = before.evicted_bytes;
  }
  EXPECT_EQ(after, before);
}

void Player::check() {
  const Usage usage = pair_.store->usage();
  uint64_t used = 0;
  for (const auto& [seq, rows] : pair_.twin) {
    ASSERT_EQ(pair_.store->length(seq), rows.size());
    used += pair_.shape.used_bytes(static_cast<uint32_t>(pair_.held(seq).size()));
  }
  ASSERT_EQ(usage.sequences, pair_.twin.size());
  ASSERT_LE(usage.used_bytes + usage.cached_bytes, usage.allocated_bytes);
  ASSERT_EQ(usage.wasted_bytes, usage.allocated_bytes - usage.used_bytes - usage.cached_bytes);
  ASSERT_LE(usage.allocated_bytes, cap_);
  ASSERT_EQ(usage.allocated_bytes, budget_->used());
  uint64_t mapped = 0;
  for (const MapEntry& piece : map_of(*pair_.store)) {
    mapped += piece.bytes;
    ASSERT_LE(piece.used_tokens, piece.tokens);
    ASSERT_TRUE(piece.users == 0 || pair_.twin.contains(piece.owner));
  }
  ASSERT_EQ(mapped, usage.allocated_bytes);
  if (traits_.exact && !traits_.cheap_fork && !traits_.tiered) {
    ASSERT_EQ(usage.used_bytes, used);
  }
}

}  // namespace kvick::kv::test
