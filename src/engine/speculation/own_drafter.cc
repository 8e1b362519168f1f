#include "engine/speculation/own_drafter.h"

#include <algorithm>
#include <utility>

namespace kvick::engine {

OwnDrafter::OwnDrafter(DraftModel& own, const Engine& engine, const Acceptance& acceptance,
                       bool shares)
    : SmallModelDrafter(own, engine, acceptance, shares, kOwnKinds) {
  states_.assign(dim(), 0);
}

// Begins after a prefix that the model took from its cache. Its states are unknown: zeros.
void OwnDrafter::begin(std::span<const Token> before) {
  small_.store->close(*std::exchange(seq_, std::nullopt));
  const kv::Opened opened = small_.store->open(shares_ ? before : std::span<const Token>());
  seq_ = opened.seq;
  first_ = 0, read_ = opened.cached, seen_ = before.size();
  if (seen_ - read_ > kMostUnknown) {
    small_.store->close(*std::exchange(seq_, std::nullopt));
    seq_ = small_.store->open({}).seq;
    first_ = read_ = seen_;
  }
  states_.assign((seen_ - read_ + 1) * dim(), 0);
}

// Ignores rows that it has seen: after a preemption they are computed again.
void OwnDrafter::see(const SeenRows& rows) {
  if (!seq_ || small_.broken || rows.text.size() <= seen_) return;
  if (rows.first > seen_) begin(rows.text.first(rows.first));
  const float* const fresh = rows.states + (seen_ - rows.first) * dim();
  states_.insert(states_.end(), fresh, fresh + (rows.text.size() - seen_) * dim());
  seen_ = rows.text.size();
  if (seen_ - read_ >= kMostWaiting && !read(rows.text)) give_up();
}

// Computes the rows of all tokens of the text from read_ on; the executor then has the logits and
// the state after the last one.
bool OwnDrafter::read(std::span<const Token> text) {
  while (read_ < text.size()) {
    const auto tokens = text.subspan(read_, std::min(kMostWaiting, text.size() - read_));
    const model::Slot slot = {.seq = *seq_,
                              .past = static_cast<uint32_t>(read_ - first_),
                              .tokens = tokens,
                              .parents = {},
                              .reusable = shares_ && first_ == 0,
                              .states = states_.data()};
    const auto last = static_cast<uint32_t>(tokens.size() - 1);
    if (slot.past + tokens.size() > small_.store->most_tokens() ||
        !executor_->advance(*small_.store, {.slots = {&slot, 1}}, {&last, 1}, {last}).ok())
      return false;
    read_ += tokens.size();
    states_.erase(states_.begin(), states_.begin() + static_cast<ptrdiff_t>(tokens.size() * dim()));
  }
  return true;
}

// The model has no row of the text's last token yet. This layer's row of it does not need that one.
// Many answers may begin to draft in the same step, when drafting begins to pay, and each may have
// nearly kMostWaiting rows to compute, for which all answers would wait: they share
// small_.may_read.
ModelDrafter::Ground OwnDrafter::ground(const DraftAsk& ask) {
  behind_ = false;
  const bool known = ask.text.size() == seen_ + 1 && read_ <= seen_;
  if (!seq_ || small_.broken || !known) return {};
  if (ask.text.size() + ask.most > small_.store->most_tokens()) return {};
  const size_t unread = ask.text.size() - read_;
  const size_t piece = unread <= kFewUnread ? unread : std::min(unread, small_.may_read);
  if (!read(ask.text.first(read_ + piece))) return {};
  small_.may_read -= std::min(small_.may_read, piece);
  behind_ = piece < unread;
  if (behind_) return {};
  return {.store = small_.store.get(),
          .seq = *seq_,
          .past = static_cast<uint32_t>(read_ - first_),
          .last = false,
          .skipped = nullptr,
          .by_states = true};
}

}  // namespace kvick::engine
