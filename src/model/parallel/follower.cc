#include "model/parallel/follower.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include "kv/strategy/facet_calls.h"
#include "model/parallel/ranked_store.h"
#include "model/ranks/ranks.h"

namespace kvick::model {

using kv::SeqId;
using kv::Shortage;

void Follower::run() {
  while (true) {
    const std::vector<std::byte> bytes = model_.ranks()->hear();
    MessageReader message(bytes);
    const auto order = message.take<Order>();
    if (order == Order::kEnd) return;
    obey(order, message);
  }
}

void Follower::obey(Order order, MessageReader& message) {
  if (order == Order::kForward) return forward(message);
  if (order == Order::kMakeStore) return make_store(message);
  const auto number = message.take<uint32_t>();
  if (order == Order::kDropStore) {
    begun_ = nullptr;
    stores_.erase(number);
    return;
  }
  Stored& stored = stores_.at(number);
  switch (order) {
    case Order::kOpen:
      return open(stored, message);
    case Order::kFork:
      return fork(stored, message);
    case Order::kClose:
      return close(stored, message.take<SeqId>());
    case Order::kBegin:
      return begin(stored, message);
    case Order::kCommit:
      return commit(stored, message);
    case Order::kDrop:
      return stored.step.reset();
    case Order::kShrink:
      return shrink(stored, message.take<double>());
    case Order::kReadRows:
      return read_rows(stored, message);
    case Order::kPutRows:
      return put_rows(stored);
    case Order::kReadState:
      return read_state(stored, message);
    case Order::kPutState:
      return put_state(stored, message);
    case Order::kFirstRow:
      return first_row(stored, message);
    case Order::kHoldRows:
      return hold_rows(stored, message);
    case Order::kKeep:
      return keep(stored, message);
    default:
      KVICK_CHECK(false, "an order {} of rank 0", static_cast<int>(order));
  }
}

// Answers with the error message; empty: the store is made.
void Follower::make_store(MessageReader& message) {
  const auto number = message.take<uint32_t>();
  std::string wrong;
  try {
    auto store = make_store_(message.take_text());
    if (store.ok())
      stores_[number].store = std::move(store).value();
    else
      wrong = store.error().message;
  } catch (const std::bad_alloc&) {
    wrong = "the system gives no memory";
  } catch (const std::system_error& error) {  // no thread for a slower tier
    wrong = error.what();
  }
  MessageWriter answer;
  answer.add_text(wrong);
  if (wrong.empty()) add_rank_rows(answer, *stores_[number].store);
  model_.ranks()->answer(answer.bytes());
}

void Follower::open(Stored& stored, MessageReader& message) {
  const auto seq = message.take<SeqId>();
  kv::Owner owner;
  owner.salt = message.take<uint64_t>();
  owner.priority = message.take<int32_t>();
  const std::vector<Token> prompt = message.take_list<Token>();
  MessageWriter answer;
  std::optional<kv::Opened> opened;
  try {
    opened = stored.store->open(prompt, owner);
    stored.sequences[seq] = opened->seq;
    answer.add(true);
    answer.add(opened->cached);
    answer.add(opened->seen);
  } catch (const std::bad_alloc&) {
    if (opened) stored.store->close(opened->seq);
    stored.sequences.erase(seq);
    answer = {};
    answer.add(false);
    answer.add(uint32_t{0});
    answer.add(uint32_t{0});
  }
  model_.ranks()->answer(answer.bytes());
}

void Follower::fork(Stored& stored, MessageReader& message) {
  const auto from = message.take<SeqId>(), to = message.take<SeqId>();
  std::optional<SeqId> made;
  std::optional<Shortage> shortage;
  try {
    auto fork = stored.store->fork(stored.sequences.at(from));
    if (fork.ok())
      stored.sequences[to] = made.emplace(*fork);
    else
      shortage = std::move(fork).error();
  } catch (const std::bad_alloc&) {
    if (made) stored.store->close(*made);
    stored.sequences.erase(to);
    shortage = Shortage::system("a fork on another rank");
  }
  MessageWriter answer;
  add_shortage(answer, shortage ? &*shortage : nullptr);
  model_.ranks()->answer(answer.bytes());
}

// This rank may lack the sequence, if it could not make it.
void Follower::close(Stored& stored, SeqId seq) {
  const auto found = stored.sequences.find(seq);
  if (found == stored.sequences.end()) return;
  stored.store->close(found->second);
  stored.sequences.erase(found);
}

void Follower::begin(Stored& stored, MessageReader& message) {
  begun_ = &stored;
  std::vector<SeqId> lost;
  std::optional<Shortage> shortage;
  try {
    const uint64_t count = message.take_count();
    std::vector<kv::Slot> slots(count);
    stored.tokens.assign(count, {});
    for (uint64_t i = 0; i < count; ++i) {
      kv::Slot& slot = slots[i];
      const auto seq = message.take<SeqId>();
      slot.seq = stored.sequences.at(seq);
      slot.fresh = message.take<uint32_t>();
      slot.whole = message.take<bool>();
      slot.reads_all = message.take<bool>();
      stored.tokens[i] = message.take_list<Token>();
      slot.tokens = stored.tokens[i];
      if (!kv::failure(*stored.store, slot.seq).empty()) lost.push_back(seq);
    }
    auto step = stored.store->begin({slots});
    if (step.ok())
      stored.step = std::move(step).value();
    else
      shortage = std::move(step).error();
  } catch (const std::bad_alloc&) {
    shortage = Shortage::system("a step on another rank");
  }
  MessageWriter answer;
  add_shortage(answer, shortage ? &*shortage : nullptr);
  answer.add_list(std::span<const SeqId>(lost));
  model_.ranks()->answer(answer.bytes());
}

// All ranks learn of a failure here, and rank 0 drops the step. Only this rank knows the reason.
void Follower::forward(MessageReader& message) {
  KVICK_CHECK(begun_ != nullptr && begun_->step != nullptr, "a forward without a step");
  const auto report = [&](std::string_view why) {
    try {
      report_(fmt::format("rank {} could not compute its part of a step: {}",
                          model_.ranks()->rank(), why));
    } catch (const std::bad_alloc&) {  // there is no memory even to say so
    }
  };
  constexpr std::string_view kNoMemory = "the system gives no memory";
  OwnedBatch owned;
  std::vector<uint32_t> wanted;
  try {
    owned = take_batch(message);
    wanted = message.take_list<uint32_t>();
    for (Slot& slot : owned.slots) slot.seq = begun_->sequences.at(slot.seq);
  } catch (const std::bad_alloc&) {
    model_.give_up();
    return report(kNoMemory);
  }
  try {
    Batch batch = owned.batch();
    batch.hadamard = begun_->store->shape().hadamard;
    model_.forward(batch, *begun_->step, workspace_, wanted, nullptr);
  } catch (const RankLost&) {
    throw;
  } catch (const RankFailed&) {  // the rank that failed reports it
  } catch (const std::bad_alloc&) {
    report(kNoMemory);
  } catch (const std::exception& error) {
    report(error.what());
  }
}

void Follower::commit(Stored& stored, MessageReader& message) {
  kv::Kept kept;
  const uint64_t count = message.take_count();
  for (uint64_t i = 0; i < count; ++i) kept.rows.push_back(message.take_list<uint32_t>());
  stored.step->commit(kept);
  stored.step.reset();
}

// Gives back at least a block wherever rank 0 gives one back. This rank's blocks may be smaller, so
// its share of the bytes of one, as a whole number, may be 0.
void Follower::shrink(Stored& stored, double part) {
  if (part <= 0) return;
  const auto cached = static_cast<double>(stored.store->usage().cached_bytes);
  kv::shrink(*stored.store, std::max<uint64_t>(1, static_cast<uint64_t>(cached * part)));
}

// Answers with a flag for success and then the bytes. It fails, without bytes, if there is no
// memory.
void Follower::answer_bytes(uint64_t bytes, base::FunctionRef<void(std::span<std::byte>)> read) {
  std::vector<std::byte> answer;
  try {
    answer.resize(1 + bytes);
    read(std::span(answer).subspan(1));
    answer[0] = std::byte{1};
  } catch (const std::bad_alloc&) {
    answer.assign(1, std::byte{0});
  }
  model_.ranks()->answer(answer);
}

void Follower::take_dealt(base::FunctionRef<void(std::span<const std::byte>)> take) {
  bool taken = true;
  try {
    take(model_.ranks()->dealt());
  } catch (const std::bad_alloc&) {
    taken = false;
  }
  MessageWriter answer;
  answer.add(taken);
  model_.ranks()->answer(answer.bytes());
}

// A sequence that is lost on this rank has no rows, so reading them fails.
void Follower::read_rows(Stored& stored, MessageReader& message) {
  const kv::SeqId seq = stored.sequences.at(message.take<SeqId>());
  const auto first = message.take<uint32_t>(), count = message.take<uint32_t>();
  answer_bytes(count * kv::moved_token_bytes(*stored.store), [&](std::span<std::byte> out) {
    if (!kv::failure(*stored.store, seq).empty()) throw std::bad_alloc();
    stored.store->facets().rows->read_rows(seq, first, count, out);
  });
}

void Follower::put_rows(Stored& stored) {
  take_dealt([&](std::span<const std::byte> rows) { stored.step->facets().sink->put(rows); });
}

void Follower::read_state(Stored& stored, MessageReader& message) {
  const kv::SeqId seq = stored.sequences.at(message.take<SeqId>());
  kv::Checkpoints* const checkpoints = stored.store->facets().checkpoints;
  answer_bytes(checkpoints != nullptr ? checkpoints->state_bytes() : 0,
               [&](std::span<std::byte> out) {
                 if (!kv::failure(*stored.store, seq).empty()) throw std::bad_alloc();
                 if (!out.empty()) checkpoints->read_state(seq, out);
               });
}

void Follower::put_state(Stored& stored, MessageReader& message) {
  const kv::SeqId seq = stored.sequences.at(message.take<SeqId>());
  take_dealt([&](std::span<const std::byte> state) {
    if (!state.empty()) stored.store->facets().checkpoints->put_state(seq, state);
  });
}

void Follower::first_row(Stored& stored, MessageReader& message) {
  const kv::SeqId seq = stored.sequences.at(message.take<SeqId>());
  MessageWriter answer;
  answer.add(stored.store->facets().rows->first_row(seq));
  model_.ranks()->answer(answer.bytes());
}

void Follower::hold_rows(Stored& stored, MessageReader& message) {
  const kv::SeqId seq = stored.sequences.at(message.take<SeqId>());
  if (kv::failure(*stored.store, seq).empty())
    stored.store->facets().rows->hold_rows(seq, message.take<uint32_t>());
}

void Follower::keep(Stored& stored, MessageReader& message) {
  const kv::SeqId seq = stored.sequences.at(message.take<SeqId>());
  kv::Checkpoints* const checkpoints = stored.store->facets().checkpoints;
  if (checkpoints != nullptr && kv::failure(*stored.store, seq).empty())
    checkpoints->keep(seq, message.take<uint32_t>());
}

}  // namespace kvick::model
