#include "engine/prefix/prefix_loader.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "base/check.h"

namespace kvick::engine {
namespace {

// Of the rows that kvick computes: raise it when the same model has others for the same tokens.
constexpr uint32_t kRowsVersion = 2;

// Rows [begin, end) of a file's, in the same layout: runs of rows, one for each job, layer, head,
// and keys or values.
std::vector<std::byte> slice(const kv::StoreInfo& info, std::span<const std::byte> rows,
                             uint32_t begin, uint32_t end) {
  std::vector<std::byte> out(uint64_t{end - begin} * info.token_bytes());
  const std::byte* from = rows.data();
  std::byte* to = out.data();
  for (const kv::Shape& shape : info.groups)
    for (uint32_t region = 0; region < shape.layers * shape.kv_heads; ++region)
      for (const bool is_v : {false, true}) {
        const size_t row = shape.row_bytes(is_v), bytes = (end - begin) * row;
        std::memcpy(to, from + begin * row, bytes);
        to += bytes;
        from += kFileTokens * row;
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

PrefixLoader::PrefixLoader(const Engine& engine, std::shared_ptr<PrefixFiles> files, double seconds)
    : files_(std::move(files)), seconds_(seconds) {
  if (files_ == nullptr) return;
  KVICK_CHECK(!engine.fingerprint().empty(), "files of rows of a model without a fingerprint");
  // The instruction set and what its float layers multiply: others round otherwise, and the same
  // request would be answered otherwise with these rows than without.
  const char* activations = engine.kernels().matmul_rounded != nullptr ? "+bf16" : "";
  model_ =
      fmt::format("{}|{}|{}{}|{}", kRowsVersion, engine.fingerprint(),
                  base::isa_name(engine.kernels().isa), activations, engine.library() != nullptr);
}

// Static types depend on the ranges that were measured for them, and old rows on when they became
// old.
bool PrefixLoader::serves(const StoreKind& kind) const {
  return files_ != nullptr && kind.store->facets().rows != nullptr &&
         !kernels::is_static(*kind.options.k_type) && !kernels::is_static(*kind.options.v_type);
}

// What a layer attends to is in the rows of the layers behind it, and so is how.
std::string PrefixLoader::fingerprint(const StoreKind& kind) const {
  std::string rows = model_ + "|" + kind.type;
  if (kind.prompt_role == model::Role::kPrompt) rows += "|prompt";
  if (kind.prompt_role == model::Role::kPromptLayers) rows += "|prompt-layers";
  return reads_all(kind.options) ? rows : rows + "|" + kind.select;
}

FiledPrefix PrefixLoader::begin(const StoreKind& kind, std::string_view salt) const {
  return {.tokens = 0, .last = first_parent(fingerprint(kind), salt)};
}

PrefixLoader::PrefixOffer PrefixLoader::offer(const StoreKind& kind, std::string_view salt,
                                              std::span<const Token> tokens,
                                              uint32_t cached) const {
  PrefixOffer offer = {.ids = {}, .first_file = cached / kFileTokens};
  if (!serves(kind)) return offer;
  std::vector<FileId> all = file_ids(begin(kind, salt).last, tokens);
  if (all.size() <= offer.first_file) return offer;
  const auto from = all.begin() + offer.first_file;
  const size_t known = files_->known(std::span(from, all.end()));
  offer.ids.assign(from, from + static_cast<ptrdiff_t>(known));
  if (known == 0) return offer;
  const uint64_t token = kind.store->info().token_bytes();
  offer.tokens = (offer.first_file + static_cast<uint32_t>(known)) * kFileTokens - cached;
  offer.bytes = known * file_bytes(kFileTokens * token);
  offer.seconds = files_->seconds_per_byte() * static_cast<double>(offer.bytes);
  return offer;
}

std::unique_ptr<PrefixLoad> PrefixLoader::load(const StoreKind& kind, PrefixOffer offer,
                                               double compute_seconds, double now) const {
  const bool computes_faster = compute_seconds > 0 && offer.seconds > compute_seconds;
  if (offer.ids.empty() || computes_faster) return nullptr;
  auto loading = std::make_unique<PrefixLoad>();
  loading->first_file = offer.first_file;
  loading->began = now;
  loading->deadline = now + seconds_;
  loading->read =
      files_->read(std::move(offer.ids), kFileTokens * kind.store->info().token_bytes());
  return loading;
}

uint32_t PrefixLoader::append(const StoreKind& kind, kv::SeqId seq, std::span<const Token> tokens,
                              uint32_t committed, const PrefixLoad& loading) const {
  for (uint32_t i = 0; i < loading.read->files().size(); ++i) {
    const uint32_t first = (loading.first_file + i) * kFileTokens, end = first + kFileTokens;
    const auto rows =
        slice(kind.store->info(), loading.read->rows(i), committed - first, kFileTokens);
    if (!kv::append_rows(*kind.store, seq, tokens.subspan(committed, end - committed), rows).ok())
      break;
    committed = end;
  }
  return committed;
}

void PrefixLoader::keep(const StoreKind& kind, kv::SeqId seq, std::span<const Token> committed,
                        FiledPrefix& filed) const {
  if (!serves(kind)) return;
  for (; filed.tokens + kFileTokens <= committed.size(); filed.tokens += kFileTokens) {
    filed.last = file_id(filed.last, committed.subspan(filed.tokens, kFileTokens));
    const size_t row_bytes = kFileTokens * kind.store->info().token_bytes();
    files_->keep(filed.last, row_bytes, [&] {
      std::vector<std::byte> rows(row_bytes);
      kind.store->facets().rows->read_rows(seq, filed.tokens, kFileTokens, rows);
      return rows;
    });
  }
}

}  // namespace kvick::engine
