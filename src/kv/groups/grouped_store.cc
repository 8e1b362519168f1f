#include "kv/groups/grouped_store.h"

#include <algorithm>

#include "base/check.h"
#include "kv/groups/grouped_step.h"
#include "kv/strategy/facet_calls.h"

namespace kvick::kv {
namespace {

uint32_t number(SeqId id) { return static_cast<uint32_t>(id); }

StoreInfo info_of(std::span<const std::unique_ptr<Store>> stores) {
  StoreInfo info = {.groups = {}, .most_tokens = UINT32_MAX};
  for (const auto& store : stores) {
    info.groups.push_back(store->shape());
    info.most_tokens = std::min(info.most_tokens, store->most_tokens());
  }
  return info;
}

std::vector<LayerPlace> places_of(std::span<const LayerSpec> layers) {
  std::vector<LayerPlace> places(layers.size());
  const std::vector<LayerGroup> groups = groups_of(layers);
  for (uint32_t g = 0; g < groups.size(); ++g)
    for (uint32_t i = 0; i < groups[g].layers.size(); ++i)
      places[groups[g].layers[i]] = {.group = g, .layer = i};
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].keeps != LayerSpec::Keeps::kNothing) continue;
    const uint32_t of = layers[layer].rows_of;
    places[layer] = {.group = LayerPlace::kNowhere, .shared = true};
    if (of == UINT32_MAX) continue;
    KVICK_CHECK(of < layer && layers[of].keeps != LayerSpec::Keeps::kNothing,
                "layer {} reads the rows of layer {}", layer, of);
    places[layer] = places[of];
    places[layer].shared = true;
  }
  return places;
}

}  // namespace

GroupedStore::GroupedStore(std::span<const LayerSpec> layers,
                           std::vector<std::unique_ptr<Store>> stores,
                           std::shared_ptr<Budget> budget)
    : Store(info_of(stores)),
      places_(places_of(layers)),
      stores_(std::move(stores)),
      budget_(std::move(budget)) {}

const std::vector<SeqId>& GroupedStore::members(SeqId seq) const {
  const auto found = sequences_.find(seq);
  KVICK_CHECK(found != sequences_.end(), "sequence {} is not open", number(seq));
  return found->second;
}

SeqId GroupedStore::add(std::vector<SeqId> members) {
  KVICK_CHECK(next_id_ != UINT32_MAX, "all {} sequence ids were used", UINT32_MAX);
  const SeqId id{next_id_++};
  sequences_.emplace(id, std::move(members));
  return id;
}

void GroupedStore::check_idle(std::string_view call) const {
  KVICK_CHECK(live_ == nullptr, "{} while a step is alive", call);
}

void GroupedStore::close_all(std::span<const SeqId> members) {
  for (size_t g = 0; g < members.size(); ++g) stores_[g]->close(members[g]);
}

// Opens the prompt in every group. If the groups have different numbers of cached tokens, closes
// these sequences and asks again for the smallest number, until all agree.
Opened GroupedStore::open(std::span<const Token> prompt, const Owner& owner) {
  check_idle("open");
  std::vector<SeqId> opened;
  opened.reserve(stores_.size());
  uint32_t seen = 0;
  for (std::span<const Token> asked = prompt;;) try {
      uint32_t least = UINT32_MAX, most = 0;
      for (const auto& store : stores_) {
        const Opened one = store->open(asked, owner);
        opened.push_back(one.seq);
        least = std::min(least, one.cached);
        most = std::max(most, one.cached);
        seen = std::max(seen, one.seen);
      }
      if (least == most) return {.seq = add(opened), .cached = least, .seen = seen};
      close_all(opened);
      opened.clear();
      asked = prompt.first(least);
    } catch (const std::bad_alloc&) {
      close_all(opened);
      throw;
    }
}

base::Result<SeqId, Shortage> GroupedStore::fork(SeqId seq) {
  check_idle("fork");
  const std::vector<SeqId>& from = members(seq);
  std::vector<SeqId> forks;
  try {
    forks.reserve(from.size());
    for (size_t g = 0; g < from.size(); ++g) {
      auto fork = stores_[g]->fork(from[g]);
      if (!fork.ok()) {
        close_all(forks);
        return std::move(fork).error();
      }
      forks.push_back(*fork);
    }
    return add(forks);
  } catch (const std::bad_alloc&) {
    close_all(forks);
    return Shortage::system(fmt::format("a fork of sequence {}", number(seq)));
  }
}

void GroupedStore::close(SeqId seq) {
  check_idle("close");
  close_all(members(seq));
  sequences_.erase(seq);
}

base::Result<std::unique_ptr<Step>, Shortage> GroupedStore::begin(const Batch& batch) {
  check_idle("begin");
  make_room(batch);
  try {
    std::vector<std::unique_ptr<Step>> steps;
    for (size_t g = 0; g < stores_.size(); ++g) {
      std::vector<Slot> slots(batch.slots.begin(), batch.slots.end());
      for (Slot& slot : slots) slot.seq = members(slot.seq)[g];
      auto step = stores_[g]->begin({slots});
      if (!step.ok()) return std::move(step).error();  // drops the steps of the other groups
      steps.push_back(std::move(step).value());
    }
    auto step = std::make_unique<GroupedStep>(*this, std::move(steps), batch);
    live_ = step.get();
    return std::unique_ptr<Step>(std::move(step));
  } catch (const std::bad_alloc&) {
    return Shortage::system(fmt::format("a step of {} sequences", batch.slots.size()));
  }
}

uint32_t GroupedStore::length(SeqId seq) const { return stores_[0]->length(members(seq)[0]); }

Usage GroupedStore::usage() const {
  Usage usage;
  for (const auto& store : stores_) usage.add(store->usage());
  usage.sequences = static_cast<uint32_t>(sequences_.size());
  return usage;
}

StoreFacets GroupedStore::facets() {
  StoreFacets all = {.holdings = this, .health = this};
  bool moves = true;
  for (const auto& store : stores_) {
    const StoreFacets one = store->facets();
    moves = moves && one.rows != nullptr;
    if (one.buckets != nullptr) all.buckets = this;
    if (one.checkpoints != nullptr) all.checkpoints = this;
  }
  if (moves) all.rows = this;
  return all;
}

uint64_t GroupedStore::shrink(uint64_t bytes) {
  check_idle("shrink");
  uint64_t given = 0;
  while (given < bytes) {
    const uint64_t more = shrink_oldest();
    if (more == 0) break;
    given += more;
  }
  // The remaining cached memory is in stores that do not know its age.
  for (const auto& store : stores_)
    if (given < bytes) given += kv::shrink(*store, bytes - given);
  return given;
}

double GroupedStore::idle_seconds() const {
  double most = -1;
  for (const auto& store : stores_)
    if (const Holdings* const holdings = store->facets().holdings)
      most = std::max(most, holdings->idle_seconds());
  return most;
}

// Evicts one block or checkpoint of the group that holds the least recently used one.
uint64_t GroupedStore::shrink_oldest() {
  Store* oldest = nullptr;
  double most = -1;
  for (const auto& store : stores_) {
    const Holdings* const holdings = store->facets().holdings;
    const double idle = holdings != nullptr ? holdings->idle_seconds() : -1;
    if (idle <= most) continue;
    most = idle;
    oldest = store.get();
  }
  return oldest != nullptr ? kv::shrink(*oldest, 1) : 0;
}

// Each group's begin() evicts only its own cached memory. Makes room for the step before that, over
// all groups, so that no group loses all of its cache. Exact for blocks of kBlockTokens.
void GroupedStore::make_room(const Batch& batch) {
  constexpr uint64_t kBlockTokens = 32;
  const auto blocks = [](uint64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; };
  if (budget_ == nullptr) return;
  uint64_t needed = 0;
  for (const Slot& slot : batch.slots) {
    const uint64_t tokens = length(slot.seq);
    const uint64_t rows = (blocks(tokens + slot.fresh) - blocks(tokens)) * kBlockTokens;
    for (const Shape& shape : info().groups)
      needed += shape.state_bytes != 0 ? (slot.whole ? 1 : slot.fresh) * shape.used_bytes(1)
                                       : rows * shape.token_bytes();
  }
  for (uint64_t free = budget_->free(); free < needed; free = budget_->free())
    if (shrink_oldest() == 0) return;
}

void GroupedStore::keep(SeqId seq, uint32_t at) {
  check_idle("keep");
  const std::vector<SeqId>& members = this->members(seq);
  for (size_t g = 0; g < members.size(); ++g)
    if (Checkpoints* const one = stores_[g]->facets().checkpoints) one->keep(members[g], at);
}

bool GroupedStore::only_at_end() const {
  return std::any_of(stores_.begin(), stores_.end(), [](const auto& store) {
    const Checkpoints* const one = store->facets().checkpoints;
    return one != nullptr && one->only_at_end();
  });
}

uint64_t GroupedStore::state_bytes() const {
  uint64_t bytes = 0;
  for (const auto& store : stores_)
    if (const Checkpoints* const one = store->facets().checkpoints) bytes += one->state_bytes();
  return bytes;
}

void GroupedStore::read_state(SeqId seq, std::span<std::byte> out) const {
  check_idle("read_state");
  const std::vector<SeqId>& members = this->members(seq);
  KVICK_CHECK_EQ(out.size(), state_bytes());
  for (size_t g = 0; g < members.size(); ++g) {
    const Checkpoints* const one = stores_[g]->facets().checkpoints;
    if (one == nullptr) continue;
    one->read_state(members[g], out.first(one->state_bytes()));
    out = out.subspan(one->state_bytes());
  }
}

void GroupedStore::put_state(SeqId seq, std::span<const std::byte> state) {
  check_idle("put_state");
  const std::vector<SeqId>& members = this->members(seq);
  KVICK_CHECK_EQ(state.size(), state_bytes());
  for (size_t g = 0; g < members.size(); ++g) {
    Checkpoints* const one = stores_[g]->facets().checkpoints;
    if (one == nullptr) continue;
    one->put_state(members[g], state.first(one->state_bytes()));
    state = state.subspan(one->state_bytes());
  }
}

std::vector<MapEntry> GroupedStore::map() const {
  std::vector<MapEntry> pieces;
  for (size_t g = 0; g < stores_.size(); ++g) {
    std::map<SeqId, SeqId> outer;
    for (const auto& [seq, members] : sequences_) outer[members[g]] = seq;
    for (MapEntry& piece : map_of(*stores_[g])) {
      if (piece.users > 0) piece.owner = outer.at(piece.owner);
      pieces.push_back(piece);
    }
  }
  return pieces;
}

std::string GroupedStore::failure(SeqId seq) const {
  const std::vector<SeqId>& members = this->members(seq);
  for (size_t g = 0; g < members.size(); ++g)
    if (std::string why = kv::failure(*stores_[g], members[g]); !why.empty()) return why;
  return {};
}

bool GroupedStore::ran_out_of_memory(SeqId seq) const {
  const std::vector<SeqId>& members = this->members(seq);
  for (size_t g = 0; g < members.size(); ++g)
    if (!kv::failure(*stores_[g], members[g]).empty())
      return kv::ran_out_of_memory(*stores_[g], members[g]);
  return false;
}

uint32_t GroupedStore::spare_rows(SeqId seq) const {
  check_idle("spare_rows");
  const std::vector<SeqId>& members = this->members(seq);
  uint32_t least = UINT32_MAX;
  for (size_t g = 0; g < members.size(); ++g)
    least = std::min(least, kv::spare_rows(*stores_[g], members[g]));
  return least;
}

uint32_t GroupedStore::first_row(SeqId seq) const {
  check_idle("first_row");
  const std::vector<SeqId>& members = this->members(seq);
  uint32_t first = 0;
  for (size_t g = 0; g < members.size(); ++g)
    first = std::max(first, stores_[g]->facets().rows->first_row(members[g]));
  return first;
}

void GroupedStore::hold_rows(SeqId seq, uint32_t from) {
  check_idle("hold_rows");
  const std::vector<SeqId>& members = this->members(seq);
  for (size_t g = 0; g < members.size(); ++g)
    stores_[g]->facets().rows->hold_rows(members[g], from);
}

void GroupedStore::read_rows(SeqId seq, uint32_t first, uint32_t count,
                             std::span<std::byte> out) const {
  check_idle("read_rows");
  const std::vector<SeqId>& members = this->members(seq);
  KVICK_CHECK_EQ(out.size(), count * info().token_bytes());
  for (size_t g = 0; g < members.size(); ++g) {
    const size_t bytes = count * stores_[g]->shape().token_bytes();
    stores_[g]->facets().rows->read_rows(members[g], first, count, out.first(bytes));
    out = out.subspan(bytes);
  }
}

}  // namespace kvick::kv
