// kvick serve: the model on the network, for many at once.

#include "server/api/serve.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/options/access_flags.h"
#include "cli/options/engine_options.h"
#include "cli/options/ranks.h"
#include "cli/options/spec_flag.h"
#include "cli/options/store_flags.h"
#include "engine/prefix/prefix_files.h"
#include "engine/prefix/prefix_loader.h"
#include "engine/serving/instances.h"
#include "kv/registry/policies.h"
#include "server/openai/json_form.h"
#include "server/ops/kv_event_publisher.h"

namespace kvick::cli {
namespace {

using base::Result;

struct ServeFlags {
  EngineFlags engine;
  unsigned instances = 1;
  uint32_t max_seqs = 64;    // sequences that run at once
  uint32_t max_queue = 256;  // jobs that may wait
  std::string kv_dir;        // of the files of the prefix cache; empty: none
  uint64_t kv_dir_bytes = uint64_t{4} << 30;
  double kv_dir_seconds = 2;  // that a request waits for files and the store at most
  StoreFlags store;
  double step_ms = 30;  // that a step may take while an answer grows
  std::string spec;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string name;
  bool any_model = false, strict_fields = false;
  server::LoadForm router = server::LoadForm::kSglang;
  server::KvEventOptions events;  // no endpoint: none
  AccessFlags access;
  size_t max_connections = 1024;
  unsigned drain_seconds = 30;
};

// The id that clients see: the model's file or folder, without what only says its format.
std::string model_name(const ServeFlags& flags) {
  if (!flags.name.empty()) return flags.name;
  if (flags.engine.model.empty()) return "smollm2";
  const std::filesystem::path path(flags.engine.model);
  const std::filesystem::path name = path.has_filename() ? path : path.parent_path();
  return name.extension() == ".gguf" ? name.stem().string() : name.filename().string();
}

void report(const std::string& what) { fmt::print(stderr, "kvick: {}\n", what); }

Result<engine::EngineThreadOptions> thread_options(const engine::Engine& engine,
                                                   const ServeFlags& flags) {
  if (flags.events.endpoint.empty() && !(flags.events.topic + flags.events.replay).empty())
    return base::fail("--kv-events-topic and --kv-events-replay need --kv-events");
  // Ranges let it through.
  if (std::isnan(flags.step_ms) || std::isnan(flags.kv_dir_seconds))
    return base::fail("--step-ms and --kv-dir-seconds must be numbers");
  engine::EngineThreadOptions options;
  KVICK_TRY(options.batch.kv, kv_options(flags.engine));
  KVICK_TRY(options.batch.spec, spec_of(flags.spec));
  // Blocks, so that prompts that begin alike share them; unless the model has its own way, or a
  // policy or a tier does.
  const bool own_way = engine.model().trained_slots() != nullptr ||
                       kv::forgets(options.batch.kv.select) || options.batch.kv.tier;
  if (options.batch.kv.spec.name.empty() && !own_way) options.batch.kv.spec.name = "paged";
  options.batch.kv_bytes = std::exchange(options.batch.kv.max_bytes, UINT64_MAX);
  options.batch.max_sequences = flags.max_seqs;
  options.batch.step_seconds = flags.step_ms / 1000;
  options.batch.report = report;
  options.most_waiting = flags.max_queue;
  options.batch.file_seconds = flags.kv_dir_seconds;
  const char* tier = !flags.kv_dir.empty() ? "--kv-dir" : "--kv-store";
  if (!flags.kv_dir.empty() || flags.store.wanted())
    if (const std::string why = engine::why_no_files(engine, options.batch.kv); !why.empty())
      report(fmt::format("{}: {}", tier, why));
  if (flags.store.wanted()) {
    KVICK_TRY(options.batch.store, open_store(flags.store, report));
  }
  if (!flags.kv_dir.empty()) {
    KVICK_TRY(options.batch.files,
              engine::PrefixFiles::open({.folder = flags.kv_dir, .max_bytes = flags.kv_dir_bytes}));
  }
  return options;
}

Result<std::unique_ptr<engine::Service>> make_service(engine::Engine& engine,
                                                      std::span<const base::Team> teams,
                                                      const engine::EngineThreadOptions& options) {
  std::unique_ptr<engine::Service> service;
  if (teams.empty()) {
    KVICK_TRY(service, engine::EngineThread::make(engine, options));
  } else {
    KVICK_TRY(service, engine::Instances::make(engine, options, teams));
  }
  return service;
}

// None for a single instance, which the system may put wherever there is room.
Result<std::vector<base::Team>> teams_of(const ServeFlags& flags) {
  if (flags.instances == 1) return std::vector<base::Team>();
  if (flags.engine.ranks)
    return base::fail(
        "--instances are copies of a model in one process, and --ranks one model in "
        "several: leave one of them out");
  return base::make_teams(base::available_cores(), flags.instances, flags.engine.threads);
}

server::ServerOptions network_of(const ServeFlags& flags) {
  server::ServerOptions network;
  network.host = flags.host;
  network.port = flags.port;
  network.most_connections = flags.max_connections;
  network.drain_time = std::chrono::seconds(flags.drain_seconds);
  network.signals = true;
  return network;
}

void say_where(const ServeFlags& flags, const Common& common, uint16_t port) {
  if (common.json)
    fmt::print("{{\"host\": \"{}\", \"port\": {}}}\n", flags.host, port);
  else if (!common.quiet)
    fmt::print(stderr, "kvick: {} at http://{}:{}/v1\n", model_name(flags), flags.host, port);
  std::fflush(stdout);
}

Result<int> serve(const ServeFlags& flags, const Common& common) {
  server::ServeOptions options;
  options.network = network_of(flags);
  KVICK_TRY_VOID(apply(flags.access, options));
  options.network.report = report;
  KVICK_TRY_VOID(check(flags.store));
  KVICK_TRY(const std::vector<base::Team> teams, teams_of(flags));
  EngineFlags engine_flags = flags.engine;
  engine_flags.fingerprint = !flags.kv_dir.empty() || flags.store.wanted();
  // Open while the model loads, so that who looks at /health sees that it does.
  std::unique_ptr<server::OpenPort> network;
  if (!will_follow(flags.engine)) {
    KVICK_TRY(network, server::OpenPort::open(std::move(options.network)));
  }
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(engine_flags, common));
  KVICK_TRY(engine::EngineThreadOptions service_options, thread_options(*engine, flags));
  std::unique_ptr<server::KvEventPublisher> events;
  if (!flags.events.endpoint.empty()) {
    const auto watcher = std::make_shared<engine::PrefixEvents>();
    KVICK_TRY(events, server::KvEventPublisher::open(flags.events, watcher));
    service_options.batch.kv.watcher = watcher;
    report(fmt::format("events of the prefix cache at {}{}{}", events->endpoint(),
                       flags.events.replay.empty() ? "" : ", missed ones at ",
                       events->replay_endpoint()));
  }
  KVICK_TRY(const std::unique_ptr<engine::Service> service,
            make_service(*engine, teams, service_options));
  options.limits.own_kv = service_options.batch.kv;
  options.model = model_name(flags);
  options.any_model = flags.any_model;
  options.strict_fields = flags.strict_fields;
  options.load_form = flags.router;
  options.constraint = server::json_forms(engine->tokenizer());
  options.on_listening = [&](uint16_t port) { say_where(flags, common, port); };
  options.report = report;
  network->serve(*engine, *service, std::move(options));
  return 0;
}

void add_network_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Network";
  command.add_option("--host", flags.host, "address to listen on; 0.0.0.0 is all of them")
      .shows_default()
      .in_group(group);
  command.add_option("--port", flags.port, "port to listen on; 0: any that is free")
      .shows_default()
      .in_group(group);
  command.add_option("--max-connections", flags.max_connections, "further ones are refused")
      .in_range(1, 1'000'000)
      .shows_default()
      .in_group(group);
  command
      .add_option("--drain-seconds", flags.drain_seconds,
                  "time for running requests after Ctrl-C or SIGTERM; a second one ends them")
      .shows_default()
      .in_group(group);
}

void add_cache_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Cache files";
  command
      .add_option("--kv-dir", flags.kv_dir,
                  "folder for cached prefixes that outlive the program (default: none)")
      .in_group(group);
  command.add_bytes("--kv-dir-size", flags.kv_dir_bytes, "most bytes of it, e.g. 4GB (the default)")
      .in_group(group);
  command
      .add_option("--kv-dir-seconds", flags.kv_dir_seconds,
                  "that a request waits for its files or the store; then it is computed anew")
      .in_range(0.0, 3600.0)
      .shows_default()
      .in_group(group);
}

void add_event_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Events";
  command
      .add_option("--kv-events", flags.events.endpoint,
                  "publish what the prefix cache holds, in vLLM's form, over ZeroMQ: tcp://*:5557")
      .in_group(group);
  command.add_option("--kv-events-topic", flags.events.topic, "their topic (default: empty)")
      .in_group(group);
  command
      .add_option("--kv-events-replay", flags.events.replay,
                  "where readers ask for events that they have missed: tcp://*:5558")
      .in_group(group);
}

void add_request_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Requests";
  command.add_option("--name", flags.name, "the model's id for clients (default: its file's name)")
      .in_group(group);
  command
      .add_flag("--any-model", flags.any_model,
                "answer requests that name another model too, instead of 404")
      .in_group(group);
  command
      .add_flag("--strict-fields", flags.strict_fields,
                "refuse requests with unknown fields (default: ignore the fields, and name them in "
                "the log and in the answer's header X-Kvick-Ignored-Fields)")
      .in_group(group);
  command
      .add_choice<server::LoadForm>(
          "--router", flags.router,
          {{"sglang", server::LoadForm::kSglang}, {"vllm", server::LoadForm::kVllm}},
          "the router before this server: GET /get_load answers in its form")
      .in_group(group);
}

}  // namespace

void add_serve(const Command& app, const Common& common) {
  const Command command =
      app.add_command("serve", "answer requests over HTTP, in the form of OpenAI's API");
  auto flags = std::make_shared<ServeFlags>();
  add_engine_flags(command, flags->engine);
  add_packed_flags(command, flags->engine);
  add_rank_flags(command, flags->engine);
  add_spec_flag(command, flags->spec);
  command
      .add_option("--instances", flags->instances,
                  "copies of the model at work, each with its share of --threads on cores of its "
                  "own; weights and memory limits are shared")
      .in_range(1, static_cast<int>(engine::PromptIndex::kMostInstances))
      .shows_default();
  command.add_option("--max-seqs", flags->max_seqs, "sequences that run at once")
      .in_range(1, 100'000)
      .shows_default();
  command.add_option("--max-queue", flags->max_queue, "requests that may wait; others are refused")
      .shows_default();
  command
      .add_option("--step-ms", flags->step_ms,
                  "that a step may take while an answer grows: prompts get what is left of it")
      .in_range(1.0, 10000.0)
      .shows_default();
  add_request_flags(command, *flags);
  add_cache_flags(command, *flags);
  add_event_flags(command, *flags);
  add_store_flags(command, flags->store);
  add_network_flags(command, *flags);
  add_access_flags(command, flags->access);
  command.runs([&common, flags] { return serve(*flags, common); });
}

}  // namespace kvick::cli
