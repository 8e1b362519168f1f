#pragma once
// kvick serve: the model on the network, for many at once.

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "engine/service.h"
#include "server/plan.h"

namespace kvick::cli {

struct ServeFlags {
  EngineFlags engine;
  uint32_t max_seqs = 64;    // sequences that run at once
  uint32_t max_queue = 256;  // jobs that may wait
  std::string kv_dir;        // of the files of the prefix cache; empty: none
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string api_key_file, name;
  size_t max_connections = 1024;
  uint64_t max_body = 8 << 20;
  unsigned drain_seconds = 30;
};

// What the command is given to serve with. The engine outlives both.
struct ServeParts {
  std::function<base::Result<std::unique_ptr<engine::Service>>(
      engine::Engine&, const engine::KvOptions&, const ServeFlags&)>
      service;
  std::function<server::MakeConstraint(const engine::Engine&)> constraint;
};

void add_serve(CLI::App& app, const Common& common, Run& chosen, ServeParts parts);

}  // namespace kvick::cli
