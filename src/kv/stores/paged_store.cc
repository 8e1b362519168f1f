#include "kv/stores/paged_store.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "base/check.h"

namespace kvick::kv {
namespace {

// Reserves what a step adds to the lists of a sequence, so that its commit cannot throw.
void reserve_for(PagedSequence& sequence, size_t blocks, size_t tokens) {
  const auto have_room = [](auto& list, size_t more) {
    if (list.capacity() < list.size() + more)
      list.reserve(std::max(list.size() + more, 2 * list.size()));
  };
  have_room(sequence.blocks, blocks);
  have_room(sequence.tokens, tokens);
}

}  // namespace

void PagedStore::add_runs(const Sequence& of, uint32_t begin, uint32_t end,
                          std::vector<kernels::Run>& runs) const {
  const auto& sequence = static_cast<const PagedSequence&>(of);
  const uint32_t rows = pool_.rows();
  for (uint32_t at = begin; at < end;) {
    const uint32_t in_block = at % rows, n = std::min(rows - in_block, end - at);
    runs.push_back({pool_.first_row(sequence.blocks[at / rows]) + in_block, n, at});
    at += n;
  }
}

std::vector<MapEntry> PagedStore::map() const {
  std::vector<MapEntry> pieces;
  const std::vector<Held> held = held_blocks();
  for (BlockId id = 0; id < held.size(); ++id) {
    if (pool_.users(id) == 0) continue;
    const Held& block = held[id];
    pieces.push_back({.bytes = pool_.block_bytes(),
                      .used_tokens = block.users > 0 ? block.most : tree_.rows_of(id),
                      .tokens = pool_.rows(),
                      .users = block.users,
                      .owner = block.first});
  }
  return pieces;
}

std::unique_ptr<Sequence> PagedStore::make_sequence(std::span<const Token> prompt,
                                                    const Owner& owner) {
  auto sequence = std::make_unique<PagedSequence>();
  sequence->owner = owner;
  if (!options_.prefix) return sequence;
  sequence->blocks.reserve(blocks_for(prompt.size()));
  sequence->tokens.reserve(prompt.size());
  for (const PrefixTree::Hit& hit : tree_.open(prompt, owner)) {
    sequence->blocks.push_back(hit.block);
    sequence->length += hit.rows;
    if (hit.block == PrefixTree::kNoBlock)
      ++sequence->gone;
    else if (setup().sharing.on_reuse)
      setup().sharing.on_reuse(hit.idle_seconds);
    if (hit.rows < pool_.rows()) break;
    sequence->tip = hit.node;
    ++sequence->published;
  }
  tree_.hold(sequence->tip);
  sequence->first = shape().first_seen(sequence->length);
  sequence->tokens.assign(prompt.begin(), prompt.begin() + sequence->length);
  return sequence;
}

CheckedStore::SequenceOr PagedStore::copy_sequence(SeqId, const Sequence& from) {
  auto copy = std::make_unique<PagedSequence>(static_cast<const PagedSequence&>(from));
  copy->blocks.resize(blocks_for(copy->length));  // without the blocks of an uncommitted step
  for (const BlockId block : copy->held()) pool_.add_user(block);
  tree_.hold(copy->tip);
  return std::unique_ptr<Sequence>(std::move(copy));
}

void PagedStore::free_sequence(std::unique_ptr<Sequence> sequence) {
  publish_tail(mine(*sequence));
  if (shape().window > 0) mark_window(mine(*sequence), sequence->length);
  // From the end: of blocks with equal last use, the first ones are then evicted last.
  const std::span<const BlockId> blocks = mine(*sequence).held();
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) tree_.drop_user(*block);
  tree_.let_go(mine(*sequence).tip);
}

void PagedStore::give_back(Sequence& of) {
  RowStore::give_back(of);
  PagedSequence& sequence = mine(of);
  const uint32_t kept = std::min(sequence.first, sequence.held_from);
  for (; sequence.gone < kept / pool_.rows(); ++sequence.gone)
    tree_.drop_user(sequence.blocks[sequence.gone]);
}

std::vector<PagedStore::Need> PagedStore::needs_of(std::span<const StepSlot> step_slots) const {
  std::vector<Need> needs;
  // Per block: users that copy it in this step. If two forks both write into a shared block, only
  // the first has to copy it.
  std::map<BlockId, uint32_t> leaving;
  for (const StepSlot& step_slot : step_slots) {
    const PagedSequence& sequence = mine(*step_slot.sequence);
    const auto have = static_cast<uint32_t>(sequence.blocks.size());
    const uint32_t then = blocks_for(uint64_t{sequence.length} + step_slot.fresh);
    Need need = {.blocks = then - std::min(then, have)};
    if (sequence.length % pool_.rows() > 0) {
      const BlockId last = sequence.blocks[sequence.length / pool_.rows()];
      need.copy = pool_.users(last) - leaving[last] > 1;
      if (need.copy) ++leaving[last];
    }
    needs.push_back(need);
  }
  return needs;
}

CheckedStore::StepOr PagedStore::start(std::vector<StepSlot> step_slots) {
  const std::vector<Need> needs = needs_of(step_slots);
  uint64_t blocks = 0;
  for (size_t i = 0; i < step_slots.size(); ++i) {
    blocks += needs[i].blocks + (needs[i].copy ? 1 : 0);
    reserve_for(mine(*step_slots[i].sequence), needs[i].blocks, step_slots[i].tokens.size());
  }
  KVICK_TRY(const std::vector<BlockId> taken, take(blocks, step_slots.size()));
  auto next = taken.begin();
  for (size_t i = 0; i < step_slots.size(); ++i) {
    PagedSequence& sequence = mine(*step_slots[i].sequence);
    if (needs[i].copy) copy_last(sequence, *next++);
    sequence.blocks.insert(sequence.blocks.end(), next, next + needs[i].blocks);
    next += needs[i].blocks;
  }
  return std::unique_ptr<CheckedStep>(std::make_unique<PagedStep>(*this, std::move(step_slots)));
}

base::Result<std::vector<BlockId>, Shortage> PagedStore::take(uint64_t count, size_t sequences) {
  const uint64_t block = pool_.block_bytes();
  const uint64_t now = (pool_.taken() - tree_.unused()) * block;
  if (auto shortage =
          over_cap(now, now + count * block, fmt::format("a step of {} sequences", sequences)))
    return *shortage;
  // If the cap was lowered meanwhile (CheckedStore::limit), it applies to cached blocks, too.
  while (held_bytes() + count * block > setup().limits.max_bytes && tree_.evict()) continue;
  std::vector<BlockId> taken;
  taken.reserve(count);
  while (taken.size() < count) {
    const std::optional<BlockId> id = pool_.free() > 0 || tree_.evict() ? take_one() : std::nullopt;
    if (id.has_value()) {
      taken.push_back(*id);
      continue;
    }
    if (pool_.free() > 0 && tree_.evict()) continue;  // the evicted block's memory may be enough
    for (const BlockId back : taken) pool_.drop_user(back);
    return Shortage{.needed_bytes = count * block,
                    .available_bytes = taken.size() * block,
                    .what = fmt::format("the system refuses {} more bytes of cache",
                                        (count - taken.size()) * block)};
  }
  return taken;
}

std::optional<BlockId> PagedStore::take_one() {
  try {
    return pool_.take();
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

void PagedStore::copy_last(PagedSequence& sequence, BlockId to) {
  BlockId& last = sequence.blocks[sequence.length / pool_.rows()];
  const uint32_t rows = sequence.length % pool_.rows();
  pool_.copy_rows(last, to, rows);
  copied_bytes_ += rows * shape().token_bytes();
  tree_.drop_user(last);
  last = to;
}

void PagedStore::drop_fresh(PagedSequence& sequence) noexcept {
  while (sequence.blocks.size() > blocks_for(sequence.length)) {
    tree_.drop_user(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
}

void PagedStore::settle(PagedSequence& sequence) {
  drop_fresh(sequence);
  if (!options_.prefix || !sequence.known) return;
  try {
    publish_full(sequence);
  } catch (const std::bad_alloc&) {  // the sequence continues but shares no further blocks
    sequence.known = false;
    sequence.tokens.resize(size_t{sequence.published} * pool_.rows());
  }
}

void PagedStore::publish_full(PagedSequence& sequence) {
  const uint32_t rows = pool_.rows();
  for (; (sequence.published + 1) * uint64_t{rows} <= sequence.length; ++sequence.published) {
    const uint32_t at = sequence.published;
    PrefixTree::Node* const tip = tree_.publish(
        sequence.owner, sequence.tip, std::span(sequence.tokens).subspan(size_t{at} * rows, rows),
        sequence.blocks[at]);
    tree_.hold(tip);
    tree_.let_go(std::exchange(sequence.tip, tip));
    if (uint64_t{at} * rows < sequence.checkpoint) tree_.mark(tip, 0, 1);
    sequence.blocks[at] = PrefixTree::block_of(tip);
  }
}

// Publishes the known rows behind the last full block, which no sequence will add to.
void PagedStore::publish_tail(PagedSequence& sequence) {
  const uint32_t at = sequence.published;
  const auto rows = static_cast<uint32_t>(sequence.tokens.size() % pool_.rows());
  if (!options_.prefix || sequence.lost || rows == 0 || at < sequence.gone) return;
  if (pool_.users(sequence.blocks[at]) > 1) return;  // another sequence may still add to it
  try {
    PrefixTree::Node* const tail = tree_.publish(
        sequence.owner, sequence.tip,
        std::span(sequence.tokens).subspan(size_t{at} * pool_.rows(), rows), sequence.blocks[at]);
    if (shape().window > 0) tree_.mark(tail, 0, 1);
  } catch (const std::bad_alloc&) {  // then no prompt will find these rows
    return;
  }
}

void PagedStore::keep(SeqId seq, uint32_t at) {
  check_idle("keep");
  PagedSequence& sequence = mine(find(seq));
  KVICK_CHECK(at <= sequence.length, "a checkpoint at token {} of {}", at, sequence.length);
  if (!sequence.known) return;
  sequence.checkpoint = std::max(sequence.checkpoint, at);  // marks later blocks once full
  mark_window(sequence, at);
}

// Marks the published blocks within the window of the token after the first `at`.
void PagedStore::mark_window(PagedSequence& sequence, uint32_t at) {
  const uint32_t first = shape().first_seen(at) / pool_.rows();
  const uint32_t end = std::min(blocks_for(at), sequence.published);
  if (first < end) tree_.mark(sequence.tip, sequence.published - end, end - first);
}

std::vector<PagedStore::Held> PagedStore::held_blocks() const {
  std::vector<Held> held(pool_.highest());
  for_each_sequence([&](SeqId id, const Sequence& one) {
    const auto& sequence = static_cast<const PagedSequence&>(one);
    uint32_t left = one.length - sequence.gone * pool_.rows();
    uint32_t unseen = one.first - sequence.gone * pool_.rows();
    for (const BlockId at : sequence.held()) {
      Held& block = held[at];
      uint32_t own = std::min(pool_.rows(), left);
      left -= own;
      const uint32_t hidden = std::min(own, unseen);  // may span several blocks where rows are held
      own -= hidden, unseen -= hidden;
      block.two = std::max(block.two, std::min(own, block.most));
      block.most = std::max(block.most, own);
      if (block.users++ == 0) block.first = id;
    }
  });
  return held;
}

Usage PagedStore::count() const {
  Usage usage;
  for (const Held& block : held_blocks()) {
    usage.used_bytes += block.most * shape().token_bytes();
    usage.shared_bytes += block.two * shape().token_bytes();
  }
  usage.allocated_bytes = held_bytes();
  usage.cached_bytes = cached_bytes();
  usage.evicted_bytes = tree_.evicted() * pool_.block_bytes();
  usage.copied_bytes = copied_bytes_;
  usage.page_bytes = pool_.block_bytes();
  usage.metadata_bytes = tree_.bytes() + pool_.highest() * sizeof(uint32_t);
  for_each_sequence([&](SeqId, const Sequence& one) {
    usage.metadata_bytes += sizeof(PagedSequence) + blocks_for(one.length) * sizeof(BlockId) +
                            one.length * sizeof(Token);
  });
  return usage;
}

}  // namespace kvick::kv
