#pragma once
// The flags of `kvick serve`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/access_flags.h"
#include "cli/options/engine_options.h"
#include "cli/options/store_flags.h"
#include "cli/options/watch_flags.h"
#include "engine/answer/pool.h"
#include "server/api/serve.h"
#include "server/ops/kv_event_publisher.h"

namespace kvick::cli {

inline constexpr const char* kServeStrategy = "paged";  // without --kv

struct ServeFlags {
  EngineFlags engine;
  unsigned instances = 1;
  uint32_t max_seqs = 64;        // sequences running at once
  uint32_t max_queue = 256;      // jobs waiting at most
  double max_wait_seconds = 30;  // longest predicted wait of a job
  std::string kv_dir;            // folder of the prefix cache's files; empty: none
  uint64_t kv_dir_bytes = uint64_t{4} << 30;
  double kv_dir_seconds = 2;  // longest wait of a request for files and the store
  StoreFlags store;
  std::string reuse = "exact";  // engine::parse_reuse_options
  double step_ms = 30;          // longest step while an answer grows
  std::string spec;
  std::vector<std::string> lora;  // NAME=PATH[:SCALE] each
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::vector<std::string> models;  // each -m; engine.model is the first
  std::vector<std::string> names;   // empty, or one name per model
  uint64_t models_memory = 0;       // limit for all models together; 0: the memory free at start
  bool preload = false;
  bool any_model = false, strict_fields = false, stop_loops = false;
  unsigned response_store_mb = 64;
  server::LoadForm router = server::LoadForm::kSglang;
  std::optional<engine::Pooling> pooling;  // of embeddings
  server::KvEventOptions events;           // empty endpoint: no events
  AccessFlags access;
  WatchFlags watch;
  size_t max_connections = 1024;
  unsigned drain_seconds = 30;
  unsigned heartbeat_seconds = 15;
};

}  // namespace kvick::cli
