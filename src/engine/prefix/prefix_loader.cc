#include "engine/prefix/prefix_loader.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "base/check.h"
#include "kv/strategy/facet_calls.h"

namespace kvick::engine {
namespace {

// Raise it when kvick computes different rows for the same model and tokens.
constexpr uint32_t kRowsVersion = 3;

std::string cannot_move(const kv::StoreInfo& info, const KvOptions& options) {
  uint32_t layers = 0, some = 0;
  for (const kv::Shape& shape : info.groups) {
    layers += shape.layers;
    if (shape.window > 0 || shape.head_dim == 0) some += shape.layers;
  }
  if (some > 0 && reads_all(options) && options.spec.name != "paged")
    return fmt::format(
        "{} of {} layers keep a window or a state, which can be moved with --kv paged alone", some,
        layers);
  return fmt::format("{} keeps rows of {} where they cannot be moved{}", options.spec.name,
                     kv_type_text(options),
                     reads_all(options) ? "" : " under " + options.select.name);
}

}  // namespace

std::string why_no_files(const Engine& engine, const KvOptions& options) {
  const KvOptions all = engine.resolved(options);
  const kv::StoreInfo info = engine.whole_store_info(all);
  std::string why;
  if (kernels::is_static(*all.k_type) || kernels::is_static(*all.v_type))
    why = "rows of static types depend on the ranges that were measured for them";
  else if (!kv::traits_of_groups(*kv::find_strategy(all.spec.name), info.groups, all.spec,
                                 all.select)
                .moves_rows)
    why = cannot_move(info, all);
  if (why.empty()) return {};
  return fmt::format(
      "no files of rows are read or written: {}; prompts are computed again after a restart, and "
      "so are preempted requests",
      why);
}

uint64_t salt_of(const PrefixOwner& owner) {
  if (owner.salt.empty() && owner.arithmetic.empty() && owner.adapter.empty()) return 0;
  const BlockId id = prefix_root(owner.arithmetic, owner.salt, owner.adapter);
  uint64_t salt = 0;
  std::memcpy(&salt, id.bytes.data(), sizeof(salt));
  return salt;
}

PrefixLoader::PrefixLoader(const Engine& engine, std::vector<std::shared_ptr<PrefixTier>> tiers,
                           double seconds, const ReuseOptions& reuse)
    : tiers_(std::move(tiers)), seconds_(seconds), tokenizer_(&engine.tokenizer()) {
  std::erase(tiers_, nullptr);
  if (tiers_.empty()) return;
  KVICK_CHECK(!engine.fingerprint().empty(), "blocks of rows of a model without a fingerprint");
  model_ = fmt::format("{}|{}", kRowsVersion, engine.fingerprint());
  arithmetic_ = engine.arithmetic();
  if (reuse.shift) arithmetic_ += fmt::format("+shift:{},{}", reuse.least, reuse.seam);
}

uint64_t PrefixLoader::state_bytes(const StoreKind& kind) {
  const kv::Checkpoints* const checkpoints = kind.store->facets().checkpoints;
  return checkpoints != nullptr ? checkpoints->state_bytes() : 0;
}

bool PrefixLoader::has_windows(const StoreKind& kind) {
  const std::span<const kv::Shape> groups = kv::moved_groups(*kind.store);
  return std::any_of(groups.begin(), groups.end(),
                     [](const kv::Shape& shape) { return shape.window > 0; });
}

// Rows of static types depend on the ranges that were measured for them, which no id covers. Stores
// that cannot move rows have no RowMover.
bool PrefixLoader::serves(const StoreKind& kind) const {
  return !tiers_.empty() && kind.store->facets().rows != nullptr &&
         !kernels::is_static(*kind.options.k_type) && !kernels::is_static(*kind.options.v_type);
}

// The rows of a layer depend on the rows that earlier layers attended to (the selection policy) and
// on the arithmetic of those layers (the role of prompt tokens).
std::string PrefixLoader::fingerprint(const StoreKind& kind, const PrefixOwner& owner) const {
  const std::string& arithmetic = owner.arithmetic.empty() ? arithmetic_ : owner.arithmetic;
  std::string rows = fmt::format("{}|{}|{}", model_, arithmetic, kind.type);
  if (kind.prompt_role == model::Role::kPrompt) rows += "|prompt";
  if (kind.prompt_role == model::Role::kPromptLayers) rows += "|prompt-layers";
  return reads_all(kind.options) ? rows : rows + "|of prompts|" + kind.select;
}

FiledPrefix PrefixLoader::begin(const StoreKind& kind, const PrefixOwner& owner) const {
  return {.tokens = 0, .last = prefix_root(fingerprint(kind, owner), owner.salt, owner.adapter)};
}

PrefixLoader::Cost PrefixLoader::cost(const StoreKind& kind, const PrefixOwner& owner,
                                      std::span<const Token> tokens) const {
  if (!serves(kind)) return {};
  const BlockId root = begin(kind, owner).last;
  const std::vector<BlockId> ids = block_ids(root, tokens);
  if (state_bytes(kind) == 0) return cost_of_blocks(kind, ids);
  const std::vector<PrefixStop> stops = stops_in(tokens, root, ids, *tokenizer_);
  for (auto stop = stops.rbegin(); stop != stops.rend(); ++stop) {
    Cost cost;
    if (kv::moved_token_bytes(*kind.store) > 0) {
      cost = cost_of_blocks(kind, std::span(ids).first(stop->blocks()));
      if (cost.tokens < stop->blocks() * kBlockTokens) continue;
    }
    for (const auto& tier : tiers_) {
      if (tier->known({&stop->id, 1}) == 0) continue;
      cost.seconds += tier->seconds_per_byte() *
                      static_cast<double>(block_bytes(key_of(kind, *stop).row_bytes));
      cost.tokens = stop->tokens;
      return cost;
    }
  }
  return {};
}

PrefixLoader::Cost PrefixLoader::cost_of_blocks(const StoreKind& kind,
                                                std::span<const BlockId> ids) const {
  Cost cost;
  const uint64_t bytes = block_bytes(kBlockTokens * kv::moved_token_bytes(*kind.store));
  size_t at = 0;
  for (const auto& tier : tiers_) {
    const size_t known = tier->known(ids.subspan(at));
    cost.seconds += tier->seconds_per_byte() * static_cast<double>(known * bytes);
    at += known;
  }
  cost.tokens = static_cast<uint32_t>(at) * kBlockTokens;
  return cost;
}

// The block of a stop holds the state, then the rows since the last whole block.
BlockKey PrefixLoader::key_of(const StoreKind& kind, const PrefixStop& stop) const {
  return {stop.id, state_bytes(kind) + stop.rest() * kv::moved_token_bytes(*kind.store)};
}

void PrefixLoader::keep_block(const StoreKind& kind, kv::SeqId seq, const BlockId& id,
                              uint32_t first, uint32_t tokens) const {
  const BlockKey key = {id, tokens * kv::moved_token_bytes(*kind.store)};
  BlockRows rows;  // read once for all tiers
  for (const auto& tier : tiers_)
    tier->keep(key, [&] {
      if (rows != nullptr) return rows;
      auto made = std::make_shared<std::vector<std::byte>>(key.row_bytes);
      kind.store->facets().rows->read_rows(seq, first, tokens, *made);
      return rows = std::move(made);
    });
}

void PrefixLoader::hold(const StoreKind& kind, kv::SeqId seq, uint32_t committed) const {
  if (serves(kind) && has_windows(kind))
    kind.store->facets().rows->hold_rows(seq, committed / kBlockTokens * kBlockTokens);
}

void PrefixLoader::keep(const StoreKind& kind, kv::SeqId seq, std::span<const Token> committed,
                        FiledPrefix& filed, bool more) const {
  if (!serves(kind)) return;
  kv::RowMover& mover = *kind.store->facets().rows;
  const uint32_t first = mover.first_row(seq);
  const bool rows = kv::moved_token_bytes(*kind.store) > 0;
  for (; filed.tokens + kBlockTokens <= committed.size(); filed.tokens += kBlockTokens) {
    filed.last = block_id(filed.last, committed.subspan(filed.tokens, kBlockTokens));
    // Cached tokens may have no rows any more, since they left the window. These rows were offered
    // when they were computed.
    if (filed.tokens >= first && rows)
      keep_block(kind, seq, filed.last, filed.tokens, kBlockTokens);
  }
  if (has_windows(kind)) mover.hold_rows(seq, more ? filed.tokens : UINT32_MAX);
}

void PrefixLoader::keep_state(const StoreKind& kind, kv::SeqId seq,
                              std::span<const Token> committed, const FiledPrefix& filed) const {
  const uint64_t bytes = state_bytes(kind);
  if (!serves(kind) || bytes == 0) return;
  const PrefixStop stop = stop_behind(committed, filed.last);
  KVICK_CHECK_EQ(filed.tokens, stop.blocks() * kBlockTokens);
  const BlockKey key = key_of(kind, stop);
  BlockRows payload;
  for (const auto& tier : tiers_)
    tier->keep(key, [&] {
      if (payload != nullptr) return payload;
      auto made = std::make_shared<std::vector<std::byte>>(key.row_bytes);
      const std::span<std::byte> out(*made);
      kind.store->facets().checkpoints->read_state(seq, out.first(bytes));
      kind.store->facets().rows->read_rows(seq, filed.tokens, stop.rest(), out.subspan(bytes));
      return payload = std::move(made);
    });
}

void PrefixLoader::keep_rest(const StoreKind& kind, const PrefixOwner& owner, kv::SeqId seq,
                             std::span<const Token> tokens) const {
  if (!serves(kind) || state_bytes(kind) > 0) return;
  const BlockId root = begin(kind, owner).last;
  const std::vector<BlockId> ids = block_ids(root, tokens);
  const auto first = static_cast<uint32_t>(ids.size()) * kBlockTokens;
  const std::span<const Token> rest = tokens.subspan(first);
  if (rest.empty()) return;
  keep_block(kind, seq, block_id(ids.empty() ? root : ids.back(), rest), first,
             static_cast<uint32_t>(rest.size()));
}

}  // namespace kvick::engine
