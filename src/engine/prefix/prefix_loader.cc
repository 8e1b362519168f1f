#include "engine/prefix/prefix_loader.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "base/check.h"

namespace kvick::engine {
namespace {

// Of the rows that kvick computes: raise it when the same model has others for the same tokens.
constexpr uint32_t kRowsVersion = 3;

// What a sequence waits at least to hear which rows there are, though it would be computed sooner.
constexpr double kLeastLookupSeconds = 0.05;

// Rows [begin, tokens) of a block's, in the same layout: runs of rows, one for each layer, head,
// and keys or values.
std::vector<std::byte> slice(const kv::StoreInfo& info, std::span<const std::byte> rows,
                             uint32_t begin, uint32_t tokens) {
  std::vector<std::byte> out(uint64_t{tokens - begin} * info.token_bytes());
  const std::byte* from = rows.data();
  std::byte* to = out.data();
  for (const kv::Shape& shape : info.groups)
    for (uint32_t region = 0; region < shape.layers * shape.kv_heads; ++region)
      for (const bool is_v : {false, true}) {
        const size_t row = shape.row_bytes(is_v), bytes = (tokens - begin) * row;
        std::memcpy(to, from + begin * row, bytes);
        to += bytes;
        from += tokens * row;
      }
  return out;
}

std::string cannot_move(const kv::StoreInfo& info, const KvOptions& options) {
  uint32_t layers = 0, windows = 0;
  for (const kv::Shape& shape : info.groups) {
    layers += shape.layers;
    if (shape.window > 0 || shape.head_dim == 0) windows += shape.layers;
  }
  if (windows > 0)
    return fmt::format("{} of {} layers that keep rows keep a window or a state alone", windows,
                       layers);
  return fmt::format("{} keeps rows of {} where they cannot be moved{}", options.spec.name,
                     kv_type_text(options),
                     reads_all(options) ? "" : " under " + options.select.name);
}

}  // namespace

std::string why_no_files(const Engine& engine, const KvOptions& options) {
  const KvOptions all = engine.resolved(options);
  const kv::StoreInfo info = engine.store_info(all);
  std::string why;
  if (engine.ranks() != nullptr)
    why = "each rank has the rows of its own heads";
  else if (kernels::is_static(*all.k_type) || kernels::is_static(*all.v_type))
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

uint32_t PrefixLoad::end_of(size_t key) const {
  return std::min(static_cast<uint32_t>(key + 1) * kBlockTokens, tokens);
}

PrefixLoader::PrefixLoader(const Engine& engine, std::vector<std::shared_ptr<PrefixTier>> tiers,
                           double seconds)
    : tiers_(std::move(tiers)), seconds_(seconds) {
  std::erase(tiers_, nullptr);
  if (tiers_.empty()) return;
  KVICK_CHECK(!engine.fingerprint().empty(), "blocks of rows of a model without a fingerprint");
  model_ = fmt::format("{}|{}", kRowsVersion, engine.fingerprint());
  const char* activations = engine.kernels().matmul_rounded != nullptr ? "+bf16" : "";
  const char* library = engine.library() != nullptr ? "+library" : "";
  arithmetic_ = fmt::format("{}{}{}", base::isa_name(engine.kernels().isa), activations, library);
}

// Static types depend on the ranges that were measured for them, and old rows on when they became
// old.
bool PrefixLoader::serves(const StoreKind& kind) const {
  return !tiers_.empty() && kind.store->facets().rows != nullptr &&
         !kernels::is_static(*kind.options.k_type) && !kernels::is_static(*kind.options.v_type);
}

// What a layer attends to is in the rows of the layers behind it, and so is how.
std::string PrefixLoader::fingerprint(const StoreKind& kind, const PrefixOwner& owner) const {
  const std::string& arithmetic = owner.arithmetic.empty() ? arithmetic_ : owner.arithmetic;
  std::string rows = fmt::format("{}|{}|{}", model_, arithmetic, kind.type);
  if (kind.prompt_role == model::Role::kPrompt) rows += "|prompt";
  if (kind.prompt_role == model::Role::kPromptLayers) rows += "|prompt-layers";
  return reads_all(kind.options) ? rows : rows + "|" + kind.select;
}

FiledPrefix PrefixLoader::begin(const StoreKind& kind, const PrefixOwner& owner) const {
  return {.tokens = 0, .last = prefix_root(fingerprint(kind, owner), owner.salt)};
}

std::unique_ptr<PrefixLoad> PrefixLoader::ask(const StoreKind& kind, const PrefixOwner& owner,
                                              std::span<const Token> tokens) const {
  if (!serves(kind)) return nullptr;
  const uint64_t token_bytes = kind.store->info().token_bytes();
  const BlockId root = begin(kind, owner).last;
  std::vector<BlockId> ids = block_ids(root, tokens);
  auto load = std::make_unique<PrefixLoad>();
  for (const BlockId& id : ids) load->keys.push_back({id, kBlockTokens * token_bytes});
  load->tokens = static_cast<uint32_t>(ids.size()) * kBlockTokens;
  const std::span<const Token> rest = tokens.subspan(load->tokens);
  if (owner.handed_over && !rest.empty()) {
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

// Which tier reads what: the first that has a block, as long as it reads faster than computing.
void PrefixLoader::plan(PrefixLoad& load, uint32_t committed, double seconds_per_token) const {
  load.planned = true;
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

uint32_t PrefixLoader::append(const StoreKind& kind, kv::SeqId seq, std::span<const Token> tokens,
                              uint32_t committed, const PrefixLoad& load) const {
  for (const PrefixLoad::Part& part : load.parts) {
    const size_t ready = part.read->ready();
    for (size_t i = 0; i < ready; ++i) {
      const auto first = static_cast<uint32_t>(part.first + i) * kBlockTokens;
      const uint32_t end = load.end_of(part.first + i);
      if (committed < first || committed >= end) break;
      const auto rows =
          slice(kind.store->info(), part.read->rows(i), committed - first, end - first);
      if (!kv::append_rows(*kind.store, seq, tokens.subspan(committed, end - committed), rows).ok())
        return committed;
      committed = end;
    }
  }
  return committed;
}

void PrefixLoader::give_up(const PrefixLoad& load) const {
  for (const PrefixLoad::Part& part : load.parts)
    if (!part.read->done()) part.tier->abandon(*part.read);
}

PrefixLoader::Cost PrefixLoader::cost(const StoreKind& kind, const PrefixOwner& owner,
                                      std::span<const Token> tokens) const {
  Cost cost;
  if (!serves(kind)) return cost;
  const std::vector<BlockId> ids = block_ids(begin(kind, owner).last, tokens);
  const uint64_t bytes = block_bytes(kBlockTokens * kind.store->info().token_bytes());
  size_t at = 0;
  for (const auto& tier : tiers_) {
    const size_t known = tier->known(std::span(ids).subspan(at));
    cost.seconds += tier->seconds_per_byte() * static_cast<double>(known * bytes);
    at += known;
  }
  cost.tokens = static_cast<uint32_t>(at) * kBlockTokens;
  return cost;
}

void PrefixLoader::keep_block(const StoreKind& kind, kv::SeqId seq, const BlockId& id,
                              uint32_t first, uint32_t tokens) const {
  const BlockKey key = {id, tokens * kind.store->info().token_bytes()};
  BlockRows rows;  // read once for all tiers
  for (const auto& tier : tiers_)
    tier->keep(key, [&] {
      if (rows != nullptr) return rows;
      auto made = std::make_shared<std::vector<std::byte>>(key.row_bytes);
      kind.store->facets().rows->read_rows(seq, first, tokens, *made);
      return rows = std::move(made);
    });
}

void PrefixLoader::keep(const StoreKind& kind, kv::SeqId seq, std::span<const Token> committed,
                        FiledPrefix& filed) const {
  if (!serves(kind)) return;
  for (; filed.tokens + kBlockTokens <= committed.size(); filed.tokens += kBlockTokens) {
    filed.last = block_id(filed.last, committed.subspan(filed.tokens, kBlockTokens));
    keep_block(kind, seq, filed.last, filed.tokens, kBlockTokens);
  }
}

void PrefixLoader::keep_rest(const StoreKind& kind, const PrefixOwner& owner, kv::SeqId seq,
                             std::span<const Token> tokens) const {
  if (!serves(kind)) return;
  const BlockId root = begin(kind, owner).last;
  const std::vector<BlockId> ids = block_ids(root, tokens);
  const auto first = static_cast<uint32_t>(ids.size()) * kBlockTokens;
  const std::span<const Token> rest = tokens.subspan(first);
  if (rest.empty()) return;
  keep_block(kind, seq, block_id(ids.empty() ? root : ids.back(), rest), first,
             static_cast<uint32_t>(rest.size()));
}

}  // namespace kvick::engine
