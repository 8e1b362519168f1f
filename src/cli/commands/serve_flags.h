#pragma once
// What `kvick serve` takes.

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
  uint32_t max_seqs = 64;        // sequences that run at once
  uint32_t max_queue = 256;      // jobs that may wait
  double max_wait_seconds = 30;  // that a job may have to wait
  std::string kv_dir;            // of the files of the prefix cache; empty: none
  uint64_t kv_dir_bytes = uint64_t{4} << 30;
  double kv_dir_seconds = 2;  // that a request waits for files and the store at most
  StoreFlags store;
  std::string reuse = "exact";  // engine::parse_reuse_options
  double step_ms = 30;          // that a step may take while an answer grows
  std::string spec;
  std::vector<std::string> lora;  // NAME=PATH[:SCALE] each
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::vector<std::string> models;  // each -m; engine.model is the first
  std::vector<std::string> names;   // none, or of each
  uint64_t models_memory = 0;       // of all models together; 0: what is free at start
  bool preload = false;
  bool any_model = false, strict_fields = false, stop_loops = false;
  unsigned response_store_mb = 64;
  server::LoadForm router = server::LoadForm::kSglang;
  std::optional<engine::Pooling> pooling;  // of embeddings
  server::KvEventOptions events;           // no endpoint: none
  AccessFlags access;
  WatchFlags watch;
  size_t max_connections = 1024;
  unsigned drain_seconds = 30;
  unsigned heartbeat_seconds = 15;
};

}  // namespace kvick::cli
