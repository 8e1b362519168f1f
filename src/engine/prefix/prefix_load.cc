// The half of PrefixLoader that loads rows from tiers into a sequence.

#include <algorithm>
#include <cstring>

#include "engine/prefix/prefix_loader.h"
#include "kv/strategy/facet_calls.h"

namespace kvick::engine {
namespace {

// A sequence waits for look-ups at least this long, even if its tokens were computed sooner.
constexpr double kLeastLookupSeconds = 0.05;

// Returns rows [begin, tokens) of a block of `tokens` tokens, in the same layout: [group][layer][kv
// head][K, V][row].
std::vector<std::byte> slice(kv::Store& store, std::span<const std::byte> rows, uint32_t begin,
                             uint32_t tokens) {
  std::vector<std::byte> out((tokens - begin) * kv::moved_token_bytes(store));
  const std::byte* from = rows.data();
  std::byte* to = out.data();
  for (const kv::Shape& shape : kv::moved_groups(store))
    for (uint32_t region = 0; region < shape.layers * shape.kv_heads; ++region)
      for (const bool is_v : {false, true}) {
        const size_t row = shape.row_bytes(is_v), bytes = (tokens - begin) * row;
        std::memcpy(to, from + begin * row, bytes);
        to += bytes;
        from += tokens * row;
      }
  return out;
}

// Whether all blocks of the read have arrived.
bool complete(const PrefixRead& read) { return read.ready() == read.keys.size(); }

}  // namespace

uint32_t PrefixLoad::end_of(size_t key) const {
  return std::min(static_cast<uint32_t>(key + 1) * kBlockTokens, tokens);
}

std::unique_ptr<PrefixLoad> PrefixLoader::ask(const StoreKind& kind, const PrefixOwner& owner,
                                              std::span<const Token> tokens) const {
  if (!serves(kind)) return nullptr;
  const uint64_t token_bytes = kv::moved_token_bytes(*kind.store);
  const BlockId root = begin(kind, owner).last;
  std::vector<BlockId> ids = block_ids(root, tokens);
  auto load = std::make_unique<PrefixLoad>();
  load->tokens = static_cast<uint32_t>(ids.size()) * kBlockTokens;
  const std::span<const Token> rest = tokens.subspan(load->tokens);
  if (state_bytes(kind) > 0) load->stops = stops_in(tokens, root, ids, *tokenizer_);
  if (token_bytes == 0) ids.clear();  // no layer has rows
  for (const BlockId& id : ids) load->keys.push_back({id, kBlockTokens * token_bytes});
  if (state_bytes(kind) > 0) {
    // A handover promises the state before the last token, and no other: a look-up of others would
    // wait in vain.
    if (owner.handed_over && !load->stops.empty())
      load->stops.erase(load->stops.begin(), load->stops.end() - 1);
    for (const PrefixStop& stop : load->stops) {
      load->stop_keys.push_back(key_of(kind, stop));
      ids.push_back(stop.id);
    }
    if (load->stops.empty()) return nullptr;
    load->tokens = load->stops.back().tokens;
  } else if (owner.handed_over && !rest.empty()) {
    ids.push_back(block_id(ids.empty() ? root : ids.back(), rest));
    load->keys.push_back({ids.back(), rest.size() * token_bytes});
    load->tokens += static_cast<uint32_t>(rest.size());
  }
  if (ids.empty()) return nullptr;
  load->handed_over = owner.handed_over;
  const double patience = owner.handed_over ? seconds_ : 0;
  for (const auto& tier : tiers_) load->lookups.push_back(tier->look_up(ids, patience));
  return load;
}

void PrefixLoader::start(PrefixLoad& load, uint32_t committed, double seconds_per_token,
                         double now) const {
  load.began = now;
  load.deadline = load.planned_by = now + seconds_;
  const uint32_t left = load.tokens - std::min(load.tokens, committed);
  if (seconds_per_token > 0 && !load.handed_over)
    load.planned_by =
        now + std::min(seconds_, std::max(kLeastLookupSeconds, left * seconds_per_token));
}

void PrefixLoader::plan(PrefixLoad& load, uint32_t committed, double seconds_per_token) const {
  load.planned = true;
  if (load.stops.empty())
    plan_blocks(load, committed, seconds_per_token);
  else
    plan_stop(load, committed, seconds_per_token);
}

// Each block is read from the first tier that has it, if that is faster than computing it.
void PrefixLoader::plan_blocks(PrefixLoad& load, uint32_t committed,
                               double seconds_per_token) const {
  size_t at = committed / kBlockTokens;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const PrefixLookup& lookup = *load.lookups[i];
    if (!lookup.done()) return;
    size_t end = at;
    uint64_t bytes = 0;
    for (; end < load.keys.size() && lookup.has[end] != 0; ++end)
      bytes += block_bytes(load.keys[end].row_bytes);
    if (end == at) continue;
    const uint32_t tokens = load.end_of(end - 1) - std::max<uint32_t>(committed, at * kBlockTokens);
    const double read_seconds = tiers_[i]->seconds_per_byte() * static_cast<double>(bytes);
    const double compute_seconds = tokens * seconds_per_token;
    if (compute_seconds > 0 && read_seconds > compute_seconds && !load.handed_over) continue;
    std::vector<BlockKey> keys(load.keys.begin() + static_cast<ptrdiff_t>(at),
                               load.keys.begin() + static_cast<ptrdiff_t>(end));
    load.parts.push_back({tiers_[i].get(), tiers_[i]->read(std::move(keys)), at});
    at = end;
  }
}

// Reads up to the last stop whose state, and all blocks between the sequence's rows and the stop,
// are in tiers and are read faster than computed.
void PrefixLoader::plan_stop(PrefixLoad& load, uint32_t committed, double seconds_per_token) const {
  // Returns the first tier that has this id of the look-ups; tiers_.size(): none has it.
  const auto tier_of = [&](size_t asked) {
    size_t i = 0;
    while (i < tiers_.size() && (!load.lookups[i]->done() || load.lookups[i]->has[asked] == 0)) ++i;
    return i;
  };
  const bool rows = !load.keys.empty();
  const size_t from = rows ? committed / kBlockTokens : 0;
  size_t there = from;
  std::vector<size_t> tiers;  // of each block, beginning with `from`
  for (; there < load.keys.size() && tier_of(there) < tiers_.size(); ++there)
    tiers.push_back(tier_of(there));
  for (size_t i = load.stops.size(); i-- > 0;) {
    const PrefixStop& stop = load.stops[i];
    const size_t of_state = tier_of(load.keys.size() + i);
    if (stop.tokens <= committed) return;
    const size_t end_block = rows ? stop.blocks() : 0;
    if (end_block > there || of_state == tiers_.size()) continue;
    const auto seconds = [&](size_t tier, const BlockKey& key) {
      return tiers_[tier]->seconds_per_byte() * static_cast<double>(block_bytes(key.row_bytes));
    };
    double read_seconds = seconds(of_state, load.stop_keys[i]);
    for (size_t block = from; block < end_block; ++block)
      read_seconds += seconds(tiers[block - from], load.keys[block]);
    const double compute_seconds = (stop.tokens - committed) * seconds_per_token;
    if (compute_seconds > 0 && read_seconds > compute_seconds && !load.handed_over) continue;
    load.stop = i;
    for (size_t first = from, end; first < end_block; first = end) {
      PrefixTier& tier = *tiers_[tiers[first - from]];
      for (end = first; end < end_block && tiers[end - from] == tiers[first - from];) ++end;
      load.parts.push_back({&tier,
                            tier.read({load.keys.begin() + static_cast<ptrdiff_t>(first),
                                       load.keys.begin() + static_cast<ptrdiff_t>(end)}),
                            first});
    }
    PrefixTier& tier = *tiers_[of_state];
    load.parts.push_back({&tier, tier.read({load.stop_keys[i]}), load.keys.size(), true});
    return;
  }
}

bool PrefixLoader::advance(PrefixLoad& load, uint32_t committed, double seconds_per_token,
                           double now) const {
  const auto done = [](const auto& task) { return task->done(); };
  if (committed >= load.tokens) return true;
  if (!load.planned) {
    if (!std::all_of(load.lookups.begin(), load.lookups.end(), done) && now < load.planned_by)
      return false;
    plan(load, committed, seconds_per_token);
  }
  return now >= load.deadline ||
         std::all_of(load.parts.begin(), load.parts.end(),
                     [](const PrefixLoad::Part& part) { return part.read->done(); });
}

void PrefixLoader::wait(const PrefixLoad& load) {
  constexpr double kSeconds = 0.002;
  if (!load.planned) {
    for (const auto& lookup : load.lookups)
      if (!lookup->done()) return lookup->wait(kSeconds);
  }
  for (const PrefixLoad::Part& part : load.parts)
    if (!part.read->done()) return part.read->wait(kSeconds);
}

AppendedRows PrefixLoader::append(const StoreKind& kind, kv::SeqId seq,
                                  std::span<const Token> tokens, uint32_t committed,
                                  const PrefixLoad& load) const {
  const uint32_t before = committed;
  const bool all = load.stop.has_value();
  if (all && !std::all_of(load.parts.begin(), load.parts.end(),
                          [](const PrefixLoad::Part& part) { return complete(*part.read); }))
    return {before};
  // Appends rows [first, end) of the prompt, without those that the sequence has already.
  const auto append_one = [&](std::span<const std::byte> rows, uint32_t first, uint32_t end) {
    if (committed < first || committed >= end) return false;
    const auto missing = slice(*kind.store, rows, committed - first, end - first);
    const auto appended =
        kv::append_rows(*kind.store, seq, tokens.subspan(committed, end - committed), missing);
    if (appended.ok()) committed = end;
    return appended.ok();
  };
  for (const PrefixLoad::Part& part : load.parts) {
    const size_t ready = part.read->ready();
    for (size_t i = 0; i < ready && !part.state; ++i) {
      const size_t key = part.first + i;
      if (!append_one(part.read->rows(i), static_cast<uint32_t>(key) * kBlockTokens,
                      load.end_of(key)))
        break;
    }
  }
  if (!all) return {committed};
  const PrefixStop& stop = load.stops[*load.stop];
  const std::span<const std::byte> last = load.parts.back().read->rows(0);
  const uint64_t bytes = state_bytes(kind);
  const bool rows = kv::moved_token_bytes(*kind.store) > 0;
  append_one(last.subspan(bytes), rows ? stop.blocks() * kBlockTokens : 0, stop.tokens);
  if (committed < stop.tokens) return {before, committed == before};
  kind.store->facets().checkpoints->put_state(seq, last.first(bytes));
  return {committed};
}

void PrefixLoader::give_up(const PrefixLoad& load) const {
  for (const PrefixLoad::Part& part : load.parts)
    if (!part.read->done()) part.tier->abandon(*part.read);
}

}  // namespace kvick::engine
