// PagedAttention: rows in blocks of a fixed number of tokens, and a table per sequence of which
// blocks hold its tokens (PagedAttention). Blocks are taken when tokens need them, so that
// a sequence wastes less than one; shared by reference between forks, and between sequences whose
// tokens begin alike; copied by whoever writes into one that others use.

#include <algorithm>
#include <cstring>
#include <map>

#include "kv/contract/options.h"
#include "kv/contract/saturating.h"
#include "kv/prefix/prefix_tree.h"
#include "kv/rows/fresh_rows.h"
#include "kv/rows/row_store.h"
#include "kv/rows/segment.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    {.name = "block", .summary = "tokens of a block", .fallback = "32"},
    {.name = "prefix",
     .summary = "blocks are kept for prompts that begin with the same tokens",
     .fallback = "on"},
    {.name = "evict",
     .summary = "which of those goes when room is needed: lru, lfu (the least often used), or "
                "priority (of the lowest owners, then lru)",
     .fallback = "lru"},
    {.name = "hugepages",
     .summary = "the blocks lie in pages of 2 MiB: on, off, or auto (where the system makes them)",
     .fallback = "auto"}};

constexpr uint32_t kMostBlockRows = 4096;
// In the order of the option's choices.
constexpr Eviction kEvictions[] = {Eviction::kLru, Eviction::kLfu, Eviction::kPriority};

struct PagedOptions {
  uint32_t block_rows;
  bool prefix;
  Eviction eviction;
  Pages pages;
};

struct PagedSequence : Sequence {
  Owner owner;
  std::vector<BlockId> blocks;
  // Of the committed rows, up to the first that is not known.
  std::vector<Token> tokens;
  bool known = true;
  // The first `published` blocks are those on the path to `tip`.
  PrefixTree::Node* tip = nullptr;
  uint32_t published = 0;
};

class PagedStore;

class PagedStep final : public RowStep {
 public:
  PagedStep(PagedStore& store, std::vector<Place> places);

 private:
  void use(uint32_t) override {}
  std::byte* fresh_row(uint32_t slot, uint32_t layer, uint32_t head, bool is_v,
                       uint32_t i) const override;
  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  PagedSequence& sequence(uint32_t slot) const {
    return static_cast<PagedSequence&>(*places()[slot].sequence);
  }

  PagedStore& store_;
};

class PagedStore final : public RowStore {
 public:
  PagedStore(const Setup& setup, const PagedOptions& options, BlockPool pool)
      : RowStore(setup),
        options_(options),
        pool_(std::move(pool)),
        tree_(pool_, options.eviction, setup.clock) {}

  void add_runs(const Sequence& of, uint32_t begin, uint32_t end,
                std::vector<kernels::Run>& runs) const override {
    const auto& sequence = static_cast<const PagedSequence&>(of);
    const uint32_t rows = pool_.rows();
    for (uint32_t at = begin; at < end;) {
      const uint32_t in_block = at % rows, n = std::min(rows - in_block, end - at);
      runs.push_back({pool_.first_row(sequence.blocks[at / rows]) + in_block, n, at});
      at += n;
    }
  }
  kernels::Segment segment(const Sequence&, uint32_t layer, uint32_t head) const override {
    return segment_of(setup(), layer, head, pool_.base(layer, head, false),
                      pool_.base(layer, head, true));
  }
  std::vector<Piece> map() const override {
    std::vector<Piece> pieces;
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

 private:
  friend class PagedStep;

  static PagedSequence& mine(Sequence& sequence) { return static_cast<PagedSequence&>(sequence); }

  uint32_t blocks_for(uint64_t rows) const {
    return static_cast<uint32_t>((rows + pool_.rows() - 1) / pool_.rows());
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                          const Owner& owner) override {
    auto sequence = std::make_unique<PagedSequence>();
    sequence->owner = owner;
    if (!options_.prefix) return sequence;
    for (const PrefixTree::Hit& hit : tree_.open(prompt, owner)) {
      sequence->blocks.push_back(hit.block);
      sequence->length += hit.rows;
      if (setup().on_reuse) setup().on_reuse(hit.idle_seconds);
      if (hit.rows < pool_.rows()) break;
      sequence->tip = hit.node;
      ++sequence->published;
    }
    sequence->tokens.assign(prompt.begin(), prompt.begin() + sequence->length);
    return sequence;
  }

  SequenceOr copy_sequence(SeqId, const Sequence& from) override {
    auto copy = std::make_unique<PagedSequence>(static_cast<const PagedSequence&>(from));
    copy->blocks.resize(blocks_for(copy->length));  // not what a dropped step has taken
    for (const BlockId block : copy->blocks) pool_.add_user(block);
    return std::unique_ptr<Sequence>(std::move(copy));
  }

  void free_sequence(std::unique_ptr<Sequence> sequence) override {
    publish_tail(mine(*sequence));
    // From the end, so that of blocks used last at the same time the beginning goes last.
    std::vector<BlockId>& blocks = mine(*sequence).blocks;
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) tree_.drop_user(*block);
  }

  // What a place needs beyond the blocks that it has.
  struct Need {
    uint32_t blocks = 0;
    bool copy = false;  // and one for its last block, which others use and it writes into
  };
  std::vector<Need> needs_of(std::span<const Place> places) const {
    std::vector<Need> needs;
    // Users that a block loses to copies: of two forks that write, the second is left alone with
    // it.
    std::map<BlockId, uint32_t> leaving;
    for (const Place& place : places) {
      const PagedSequence& sequence = mine(*place.sequence);
      const auto have = static_cast<uint32_t>(sequence.blocks.size());
      const uint32_t then = blocks_for(uint64_t{sequence.length} + place.fresh);
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

  StepOr start(std::vector<Place> places) override {
    const std::vector<Need> needs = needs_of(places);
    uint64_t blocks = 0;
    for (const Need& need : needs) blocks += need.blocks + (need.copy ? 1 : 0);
    KVICK_TRY(const std::vector<BlockId> taken, take(blocks, places.size()));
    auto next = taken.begin();
    for (size_t i = 0; i < places.size(); ++i) {
      PagedSequence& sequence = mine(*places[i].sequence);
      if (needs[i].copy) copy_last(sequence, *next++);
      sequence.blocks.insert(sequence.blocks.end(), next, next + needs[i].blocks);
      next += needs[i].blocks;
    }
    return std::unique_ptr<CheckedStep>(std::make_unique<PagedStep>(*this, std::move(places)));
  }

  base::Result<std::vector<BlockId>, Shortage> take(uint64_t count, size_t sequences) {
    const uint64_t block = pool_.block_bytes();
    const uint64_t now = (pool_.taken() - tree_.unused()) * block;
    if (auto shortage =
            over_cap(now, now + count * block, fmt::format("a step of {} sequences", sequences)))
      return *shortage;
    // A cap that was lowered since (RowStore::limit) is one on blocks that only wait to be used,
    // too.
    while (held_bytes() + count * block > setup().max_bytes && tree_.evict()) continue;
    std::vector<BlockId> taken;
    while (taken.size() < count) {
      const std::optional<BlockId> id =
          pool_.free() > 0 || tree_.evict() ? pool_.take() : std::nullopt;
      if (id.has_value()) {
        taken.push_back(*id);
        continue;
      }
      if (pool_.free() > 0 && tree_.evict()) continue;  // what it gave back may be enough
      for (const BlockId back : taken) pool_.drop_user(back);
      return Shortage{.needed_bytes = count * block,
                      .available_bytes = taken.size() * block,
                      .what = fmt::format("the system refuses {} more bytes of cache",
                                          (count - taken.size()) * block)};
    }
    return taken;
  }

  void copy_last(PagedSequence& sequence, BlockId to) {
    BlockId& last = sequence.blocks[sequence.length / pool_.rows()];
    const uint32_t rows = sequence.length % pool_.rows();
    pool_.copy_rows(last, to, rows);
    copied_bytes_ += rows * shape().token_bytes();
    tree_.drop_user(last);
    last = to;
  }

  // After a commit: full blocks become known, and what was taken for rows that were not kept goes.
  void settle(PagedSequence& sequence) {
    while (sequence.blocks.size() > blocks_for(sequence.length)) {
      tree_.drop_user(sequence.blocks.back());
      sequence.blocks.pop_back();
    }
    if (!options_.prefix || !sequence.known) return;
    const uint32_t rows = pool_.rows();
    for (; (sequence.published + 1) * uint64_t{rows} <= sequence.length; ++sequence.published) {
      const uint32_t at = sequence.published;
      sequence.tip = tree_.publish(sequence.owner, sequence.tip,
                                   std::span(sequence.tokens).subspan(size_t{at} * rows, rows),
                                   sequence.blocks[at]);
      sequence.blocks[at] = PrefixTree::block_of(sequence.tip);
    }
  }

  // The known rows behind the last full block, which nobody will add to.
  void publish_tail(PagedSequence& sequence) {
    const uint32_t at = sequence.published;
    const auto rows = static_cast<uint32_t>(sequence.tokens.size() % pool_.rows());
    if (!options_.prefix || rows == 0) return;
    if (pool_.users(sequence.blocks[at]) > 1) return;  // of others, who may add to it
    tree_.publish(sequence.owner, sequence.tip,
                  std::span(sequence.tokens).subspan(size_t{at} * pool_.rows(), rows),
                  sequence.blocks[at]);
  }

  uint64_t held_bytes() const override { return pool_.taken() * pool_.block_bytes(); }
  uint64_t cached_bytes() const override { return tree_.unused() * pool_.block_bytes(); }
  uint64_t evict(uint64_t bytes) override {
    const uint64_t before = held_bytes();
    while (before - held_bytes() < bytes && tree_.evict()) continue;
    return before - held_bytes();
  }

  // What sequences have of a block.
  struct Held {
    uint32_t users = 0;
    uint32_t most = 0, two = 0;  // rows: the most, and what at least two of them have
    SeqId first{};               // of them
  };
  std::vector<Held> held_blocks() const {
    std::vector<Held> held(pool_.highest());
    for_each_sequence([&](SeqId id, const Sequence& one) {
      uint32_t left = one.length;
      for (const BlockId at : static_cast<const PagedSequence&>(one).blocks) {
        Held& block = held[at];
        const uint32_t own = std::min(pool_.rows(), left);
        left -= own;
        block.two = std::max(block.two, std::min(own, block.most));
        block.most = std::max(block.most, own);
        if (block.users++ == 0) block.first = id;
      }
    });
    return held;
  }

  Usage count() const override {
    Usage usage;
    for (const Held& block : held_blocks()) {
      usage.used_bytes += block.most * shape().token_bytes();
      usage.shared_bytes += block.two * shape().token_bytes();
    }
    usage.allocated_bytes = held_bytes();
    usage.cached_bytes = cached_bytes();
    usage.copied_bytes = copied_bytes_;
    usage.page_bytes = pool_.block_bytes();
    usage.metadata_bytes = tree_.bytes() + pool_.highest() * sizeof(uint32_t);
    for_each_sequence([&](SeqId, const Sequence& one) {
      usage.metadata_bytes += sizeof(PagedSequence) + blocks_for(one.length) * sizeof(BlockId) +
                              one.length * sizeof(Token);
    });
    return usage;
  }

  PagedOptions options_;
  BlockPool pool_;
  PrefixTree tree_;
  uint64_t copied_bytes_ = 0;
};

PagedStep::PagedStep(PagedStore& store, std::vector<Place> places)
    : RowStep(store, std::move(places)), store_(store) {}

std::byte* PagedStep::fresh_row(uint32_t slot, uint32_t layer, uint32_t head, bool is_v,
                                uint32_t i) const {
  const PagedSequence& sequence = this->sequence(slot);
  const BlockPool& pool = store_.pool_;
  const uint32_t at = sequence.length + i;
  return pool.row(sequence.blocks[at / pool.rows()], layer, head, is_v, at % pool.rows());
}

void PagedStep::write_rows(uint32_t layer, const float* k, const float* v) {
  write_fresh_rows(store_.setup(), places(), {layer, k, v},
                   [&](uint32_t slot, uint32_t head, bool is_v, uint32_t i) {
                     return fresh_row(slot, layer, head, is_v, i);
                   });
}

void PagedStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  const Place& place = places()[slot];
  PagedSequence& sequence = this->sequence(slot);
  const Shape& shape = store_.shape();
  // Ascending: no row is overwritten before it has moved.
  for (uint32_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    for (uint32_t layer = 0; layer < shape.layers; ++layer)
      for (uint32_t head = 0; head < shape.kv_heads; ++head)
        for (const bool is_v : {false, true})
          std::memcpy(fresh_row(slot, layer, head, is_v, i),
                      fresh_row(slot, layer, head, is_v, kept[i]), shape.row_bytes(is_v));
    store_.copied_bytes_ += shape.token_bytes();
  }
  sequence.known = sequence.known && (kept.empty() || !place.tokens.empty());
  if (sequence.known)
    for (const uint32_t i : kept) sequence.tokens.push_back(place.tokens[i]);
  sequence.length += static_cast<uint32_t>(kept.size());
  store_.settle(sequence);
}

base::Result<PagedOptions> options_of(const Setup& setup, const Spec& spec) {
  KVICK_TRY(const uint64_t rows, read_number(spec, kOptions[0], 1, kMostBlockRows));
  KVICK_TRY(const bool prefix, read_switch(spec, kOptions[1]));
  if (prefix && !setup.shares_prefix && spec.options.contains("prefix"))
    return base::fail(
        "{}: prefix=on: rows that change their type with age, or that a policy keeps more of, "
        "serve "
        "one sequence only",
        spec.name);
  KVICK_TRY(const size_t eviction, read_choice(spec, kOptions[2], {"lru", "lfu", "priority"}));
  KVICK_TRY(const size_t huge, read_choice(spec, kOptions[3], {"auto", "on", "off"}));
  return PagedOptions{
      .block_rows = static_cast<uint32_t>(rows),
      .prefix = prefix && setup.shares_prefix,
      .eviction = kEvictions[eviction],
      .pages = huge == 1 || (huge == 0 && huge_pages_work().ok()) ? Pages::kHuge : Pages::kSystem};
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Spec& spec) {
  KVICK_TRY(const PagedOptions options, options_of(setup, spec));
  if (options.pages == Pages::kHuge)
    if (auto works = huge_pages_work(); !works.ok())
      return base::fail("{}: hugepages=on: {}", spec.name, works.error().message);
  KVICK_TRY(BlockPool pool, BlockPool::make(setup, options.block_rows, options.pages));
  return std::unique_ptr<Store>(std::make_unique<PagedStore>(setup, options, std::move(pool)));
}

base::Result<Cost> cost(const Setup& setup, const Spec& spec, const Load& load) {
  KVICK_TRY(const PagedOptions options, options_of(setup, spec));
  const uint64_t token = setup.shape.token_bytes(), rows = options.block_rows;
  const uint64_t held = (load.tokens + rows - 1) / rows * rows;
  return Cost{.fast_bytes = saturating_mul(load.sequences, saturating_mul(held, token)),
              .slow_bytes = 0,
              .read_bytes_per_token = saturating_mul(load.tokens, token),
              .copied_bytes = 0};
}

}  // namespace

Strategy paged_strategy() {
  return {
      .name = "paged",
      .summary =
          "blocks of tokens and a table of them, shared by prompts that begin alike "
          "(PagedAttention)",
      .options = kOptions,
      .traits = {.shares_prefix = true, .cheap_fork = true, .holds_old = true, .moves_rows = true},
      .make = make,
      .cost = cost};
}

}  // namespace kvick::kv
