#include "server/ops/cache_json.h"

namespace kvick::server {
namespace {

Json usage_json(const kv::Usage& usage) {
  return {{"used_bytes", usage.used_bytes},
          {"allocated_bytes", usage.allocated_bytes},
          {"wasted_bytes", usage.wasted_bytes},
          {"shared_bytes", usage.shared_bytes},
          {"cached_bytes", usage.cached_bytes},
          {"evicted_bytes", usage.evicted_bytes},
          {"checkpoints", usage.checkpoints},
          {"checkpoint_bytes", usage.checkpoint_bytes},
          {"resumed", usage.resumed},
          {"slow_bytes", usage.slow_bytes},
          {"slow_read_bytes", usage.slow_read_bytes},
          {"slow_written_bytes", usage.slow_written_bytes},
          {"copied_bytes", usage.copied_bytes},
          {"page_bytes", usage.page_bytes},
          {"metadata_bytes", usage.metadata_bytes},
          {"read_bytes", usage.read_bytes},
          {"checks", usage.checks},
          {"lost_mass", usage.lost_mass},
          {"sequences", usage.sequences}};
}

Json store_json(const engine::StoreState& store) {
  Json pieces = Json::array();
  for (const engine::CachePiece& piece : store.pieces)
    pieces.push_back({{"bytes", piece.bytes},
                      {"used_tokens", piece.used_tokens},
                      {"tokens", piece.tokens},
                      {"users", piece.users},
                      {"job", piece.job}});
  return {{"instance", store.instance}, {"strategy", store.strategy},
          {"type", store.type},         {"tier", store.tier},
          {"select", store.select},     {"usage", usage_json(store.usage)},
          {"pieces", std::move(pieces)}};
}

Json sequence_json(const engine::SequenceState& sequence) {
  return {{"job", sequence.job},
          {"choice", sequence.choice},
          {"state", engine::job_state_name(sequence.state)},
          {"store", sequence.store},
          {"tokens", sequence.tokens},
          {"prompt_tokens", sequence.prompt_tokens},
          {"cached_tokens", sequence.cached_tokens},
          {"bytes", sequence.bytes}};
}

}  // namespace

Json cache_json(const engine::CacheState& state) {
  Json stores = Json::array(), sequences = Json::array();
  for (const engine::StoreState& store : state.stores) stores.push_back(store_json(store));
  for (const engine::SequenceState& one : state.sequences) sequences.push_back(sequence_json(one));
  return {{"limit_bytes", state.limit_bytes},
          {"stores", std::move(stores)},
          {"sequences", std::move(sequences)}};
}

Json caches_json(std::span<const ModelCache> caches) {
  uint64_t limit = 0;
  Json stores = Json::array(), sequences = Json::array();
  for (const ModelCache& of : caches) {
    const size_t first = stores.size();
    limit += of.cache.limit_bytes;
    for (const engine::StoreState& store : of.cache.stores) {
      Json json = store_json(store);
      json["model"] = of.model;
      stores.push_back(std::move(json));
    }
    for (const engine::SequenceState& one : of.cache.sequences) {
      Json json = sequence_json(one);
      json["store"] = first + one.store;
      sequences.push_back(std::move(json));
    }
  }
  return {
      {"limit_bytes", limit}, {"stores", std::move(stores)}, {"sequences", std::move(sequences)}};
}

}  // namespace kvick::server
