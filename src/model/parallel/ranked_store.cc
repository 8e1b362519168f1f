#include "model/parallel/ranked_store.h"

#include <algorithm>

#include "kv/strategy/facet_calls.h"

namespace kvick::model {

using kv::SeqId;
using kv::Shortage;

void add_shortage(MessageWriter& message, const Shortage* shortage) {
  message.add(shortage != nullptr);
  if (shortage == nullptr) return;
  message.add(shortage->needed_bytes);
  message.add(shortage->available_bytes);
  message.add(shortage->out_of_memory);
  message.add_text(shortage->what);
}

std::optional<Shortage> take_shortage(MessageReader& message) {
  if (!message.take<bool>()) return std::nullopt;
  Shortage shortage;
  shortage.needed_bytes = message.take<uint64_t>();
  shortage.available_bytes = message.take<uint64_t>();
  shortage.out_of_memory = message.take<bool>();
  shortage.what = message.take_text();
  return shortage;
}

// Rank 0's step. It tells the other ranks when it is committed or dropped.
class RankedStep final : public kv::Step, kv::RowSink {
 public:
  RankedStep(RankedStore& store, std::unique_ptr<kv::Step> own)
      : store_(store), own_(std::move(own)) {}
  ~RankedStep() override {
    if (own_ == nullptr) return;
    own_.reset();
    try {
      store_.ranks_.tell(store_.order(Order::kDrop).bytes());
    } catch (const std::exception&) {  // the next step notices a lost rank
    }
  }
  RankedStep(const RankedStep&) = delete;
  RankedStep& operator=(const RankedStep&) = delete;

  void write(uint32_t layer, const float* k, const float* v) override { own_->write(layer, k, v); }
  void view(const kv::Query& query, base::Arena& scratch, kernels::View& out) override {
    own_->view(query, scratch, out);
  }
  void commit(const kv::Kept& kept) override {
    MessageWriter message = store_.order(Order::kCommit);
    message.add(static_cast<uint64_t>(kept.rows.size()));
    for (const std::vector<uint32_t>& rows : kept.rows)
      message.add_list(std::span<const uint32_t>(rows));
    own_->commit(kept);
    own_.reset();
    store_.ranks_.tell(message.bytes());
  }
  kv::StepFacets facets() override {
    kv::StepFacets facets = own_->facets();
    facets.sink = store_.groups_.empty() ? nullptr : this;
    return facets;
  }

 private:
  void put(std::span<const std::byte> rows) override {
    store_.put_rows(*own_->facets().sink, rows);
  }

  RankedStore& store_;
  std::unique_ptr<kv::Step> own_;  // null: the step has ended
};

RankedStore::RankedStore(Ranks& ranks, uint32_t number, std::unique_ptr<kv::Store> own,
                         std::span<const RankRows> others)
    : Store(own->info()), ranks_(ranks), number_(number), own_(std::move(own)) {
  std::vector<RankRows> all = {rank_rows_of(*own_)};
  all.insert(all.end(), others.begin(), others.end());
  bool move = true;
  for (const RankRows& one : all) {
    move = move && !one.groups.empty();
    checkpoints_ = checkpoints_ || one.checkpoints;
    only_at_end_ = only_at_end_ || one.only_at_end;
    state_bytes_.push_back(one.state_bytes);
    token_bytes_.push_back(0);
    for (const kv::Shape& shape : one.groups) {
      token_bytes_.back() += shape.token_bytes();
      windows_ = windows_ || shape.window > 0;
      groups_.push_back(shape);
    }
  }
  if (!move) groups_.clear();
}

RankedStore::~RankedStore() {
  try {
    ranks_.tell(order(Order::kDropStore).bytes());
  } catch (const std::exception&) {  // a lost rank has no store
  }
}

MessageWriter RankedStore::order(Order what) const {
  MessageWriter message(what);
  message.add(number_);
  return message;
}

void RankedStore::close_everywhere(SeqId seq) {
  MessageWriter message = order(Order::kClose);
  message.add(seq);
  ranks_.tell(message.bytes());
  lost_.erase(seq);
  own_->close(seq);
}

// If not all ranks have the same `cached` tokens of the prompt, asks for fewer until they do.
kv::Opened RankedStore::open(std::span<const Token> prompt, const kv::Owner& owner) {
  for (std::span<const Token> asked = prompt;;) {
    const kv::Opened own = own_->open(asked, owner);
    uint32_t least = own.cached, seen = own.seen;
    bool alike = true, failed = false;
    try {
      MessageWriter message = order(Order::kOpen);
      message.add(own.seq);
      message.add(owner.salt);
      message.add(owner.priority);
      message.add_list(asked);
      ranks_.tell(message.bytes());
      for (const std::vector<std::byte>& answer : ranks_.answers()) {
        MessageReader reader(answer);
        failed |= !reader.take<bool>();
        const auto cached = reader.take<uint32_t>();
        alike &= cached == own.cached;
        least = std::min(least, cached);
        seen = std::max(seen, reader.take<uint32_t>());
      }
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    if (alike && !failed) return {.seq = own.seq, .cached = own.cached, .seen = seen};
    close_everywhere(own.seq);
    if (failed) throw std::bad_alloc();
    asked = prompt.first(least);
  }
}

base::Result<SeqId, Shortage> RankedStore::fork(SeqId seq) {
  if (const std::string why = failure(seq); !why.empty())
    return Shortage{.needed_bytes = 1, .available_bytes = 0, .what = "fork: " + why};
  KVICK_TRY(const SeqId fork, own_->fork(seq));
  std::optional<Shortage> shortage;
  try {
    MessageWriter message = order(Order::kFork);
    message.add(seq);
    message.add(fork);
    ranks_.tell(message.bytes());
    for (const std::vector<std::byte>& answer : ranks_.answers()) {
      MessageReader reader(answer);
      if (auto one = take_shortage(reader)) shortage = std::move(one);
    }
  } catch (const std::bad_alloc&) {
    close_everywhere(fork);
    throw;
  }
  if (!shortage) return fork;
  close_everywhere(fork);
  return *std::move(shortage);
}

void RankedStore::close(SeqId seq) { close_everywhere(seq); }

base::Result<std::unique_ptr<kv::Step>, Shortage> RankedStore::begin(const kv::Batch& batch) {
  for (const kv::Slot& slot : batch.slots)
    if (lost_.contains(slot.seq))
      return Shortage{.needed_bytes = 1, .available_bytes = 0, .what = failure(slot.seq)};
  KVICK_TRY(std::unique_ptr<kv::Step> own, own_->begin(batch));
  MessageWriter message = order(Order::kBegin);
  message.add(static_cast<uint64_t>(batch.slots.size()));
  for (const kv::Slot& slot : batch.slots) {
    message.add(slot.seq);
    message.add(slot.fresh);
    message.add(slot.whole);
    message.add(slot.reads_all);
    message.add_list(slot.tokens);
  }
  // Made before the order is sent: an exception after it would leave the answers unread.
  auto step = std::make_unique<RankedStep>(*this, std::move(own));
  ranks_.tell(message.bytes());
  std::optional<Shortage> shortage;
  for (const std::vector<std::byte>& answer : ranks_.answers()) {
    MessageReader reader(answer);
    if (auto one = take_shortage(reader)) shortage = std::move(one);
    for (const SeqId seq : reader.take_list<SeqId>()) lost_.insert(seq);
  }
  if (shortage) return *std::move(shortage);  // destroying `step` drops it on all ranks
  return std::unique_ptr<kv::Step>(std::move(step));
}

kv::StoreFacets RankedStore::facets() {
  const kv::StoreFacets own = own_->facets();
  return {.rows = groups_.empty() ? nullptr : this,
          .holdings = own.holdings != nullptr ? this : nullptr,
          .health = this,
          .buckets = own.buckets,
          .checkpoints = checkpoints_ ? this : nullptr};
}

// Other ranks give back the same fraction of their cached bytes, at most all of them; UINT64_MAX
// asks for all.
uint64_t RankedStore::shrink(uint64_t bytes) {
  const uint64_t cached = own_->usage().cached_bytes;
  MessageWriter message = order(Order::kShrink);
  message.add(bytes >= cached ? 1.0 : static_cast<double>(bytes) / static_cast<double>(cached));
  ranks_.tell(message.bytes());
  return kv::shrink(*own_, bytes);
}

std::vector<kv::MapEntry> RankedStore::map() const { return kv::map_of(*own_); }

// All ranks hold the same blocks and get the same calls, so their ages are those of rank 0.
double RankedStore::idle_seconds() const { return own_->facets().holdings->idle_seconds(); }

std::string RankedStore::failure(SeqId seq) const {
  if (lost_.contains(seq)) return "another rank has lost its rows";
  return kv::failure(*own_, seq);
}

bool RankedStore::ran_out_of_memory(SeqId seq) const {
  return lost_.contains(seq) || kv::ran_out_of_memory(*own_, seq);
}

}  // namespace kvick::model
