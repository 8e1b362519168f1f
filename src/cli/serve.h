#pragma once
// kvick serve: the model on the network, for many at once.

#include <string>

#include "base/result.h"
#include "cli/engine_options.h"
#include "engine/scheduler.h"

namespace kvick::cli {

struct ServeFlags {
  EngineFlags engine;
  uint32_t max_seqs = 64;    // sequences that run at once
  uint32_t max_queue = 256;  // jobs that may wait
  std::string kv_dir;        // of the files of the prefix cache; empty: none
  uint64_t kv_dir_bytes = uint64_t{4} << 30;
  double kv_dir_seconds = 2;  // that a request waits for files at most
  double step_ms = 30;        // that a step may take while an answer grows
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string api_key_file, name;
  size_t max_connections = 1024;
  uint64_t max_body = 8 << 20;
  unsigned drain_seconds = 30;
};

// The scheduler for what was asked for. Errors: those of the options.
base::Result<std::unique_ptr<engine::Scheduler>> make_scheduler(engine::Engine& engine,
                                                                const ServeFlags& flags);

}  // namespace kvick::cli
