// kvick serve: serves models over HTTP to many clients at once.

#include "server/api/serve.h"

#include <cstdio>
#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/commands/serve_models.h"
#include "cli/options/pooling_flag.h"
#include "cli/options/ranks.h"
#include "cli/options/spec_flag.h"
#include "engine/serving/instances.h"
#include "server/net/open_files.h"

namespace kvick::cli {
namespace {

using base::Result;

server::ServerOptions network_of(const ServeFlags& flags) {
  server::ServerOptions network;
  network.host = flags.host;
  network.port = flags.port;
  network.most_connections = flags.max_connections;
  network.drain_time = std::chrono::seconds(flags.drain_seconds);
  network.heartbeat_time = std::chrono::seconds(flags.heartbeat_seconds);
  network.signals = true;
  return network;
}

// Each connection is an open file. The usual limit of 1024 files would be reached before that of
// --max-connections, and clients would wait for an answer instead of being refused.
void allow_connections(const ServeFlags& flags, const Watch& watch) {
  constexpr uint64_t kOthers = 512;  // models, cache files, stores, refused connections
  const uint64_t wanted = flags.max_connections + kOthers;
  const uint64_t allowed = server::allow_open_files(wanted);
  if (allowed >= wanted) return;
  watch.say("network",
            fmt::format("--max-connections {} needs {} open files, but the system allows {}; raise "
                        "its limit (ulimit -Hn) or allow fewer connections",
                        flags.max_connections, wanted, allowed));
}

void say_where(const ServeFlags& flags, const Common& common, Watch& watch, uint16_t port) {
  if (common.json) {
    fmt::print("{{\"host\": \"{}\", \"port\": {}}}\n", flags.host, port);
    std::fflush(stdout);
  }
  const std::vector<std::string> names = model_names(flags);
  watch.log->write(
      {.level = common.json || common.quiet ? server::LogLevel::kInfo : server::LogLevel::kNotice,
       .name = "start",
       .message = fmt::format("{} at http://{}:{}/v1", fmt::join(names, ", "), flags.host, port)});
}

Result<int> serve(const ServeFlags& flags, const Common& common) {
  server::ServeOptions options;
  options.network = network_of(flags);
  KVICK_TRY_VOID(apply(flags.access, options));
  KVICK_TRY(const std::unique_ptr<Watch> watch, open_watch(flags.watch));
  options.network.report = watch->says("network");
  options.network.id_seed = watch->id_seed;
  options.network.on_drain = [log = watch->log] {
    log->write({.level = server::LogLevel::kInfo,
                .name = "drain",
                .message = "a signal came; running requests end first"});
  };
  KVICK_TRY_VOID(check(flags.store));
  KVICK_TRY_VOID(check_models(flags));
  KVICK_TRY(const std::vector<base::Team> teams, teams_of(flags));
  allow_connections(flags, *watch);
  // The port opens before the model loads, so that /health can report the loading.
  std::unique_ptr<server::OpenPort> network;
  if (!will_follow(flags.engine)) {
    KVICK_TRY(network, server::OpenPort::open(std::move(options.network)));
  }
  const ModelLoader loader(flags, common, teams, options.limits, *watch);
  KVICK_TRY(const std::unique_ptr<server::ModelHost> models, loader.open_host());
  options.any_model = flags.any_model;
  options.strict_fields = flags.strict_fields;
  options.max_sequences = flags.max_seqs;
  options.stop_loops = flags.stop_loops;
  options.load_form = flags.router;
  options.pooling = flags.pooling;
  options.response_store_bytes = size_t{flags.response_store_mb} << 20;
  options.on_listening = [&](uint16_t port) { say_where(flags, common, *watch, port); };
  options.report = watch->says("request");
  options.book = watch->book;
  options.debug = flags.watch.debug;
  network->serve(*models, std::move(options));
  return 0;
}

void add_network_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Network";
  command.add_option("--host", flags.host, "address to listen on; 0.0.0.0 is all of them")
      .shows_default();
  command.add_option("--port", flags.port, "port to listen on; 0: any that is free")
      .shows_default();
  command
      .add_option("--max-connections", flags.max_connections,
                  "most connections at a time; others are refused")
      .in_range(1, 1'000'000)
      .shows_default()
      .in_group(group);
  command
      .add_option("--drain-seconds", flags.drain_seconds,
                  "seconds that running requests have to finish after Ctrl-C or SIGTERM; a second "
                  "signal ends them at once")
      .shows_default()
      .in_group(group);
  command
      .add_option("--heartbeat-seconds", flags.heartbeat_seconds,
                  "seconds without output after which a stream sends a comment, so that proxies "
                  "keep the connection; 0: never")
      .in_range(0, 86400)
      .shows_default()
      .in_group(group);
}

void add_cache_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Cache files";
  command
      .add_option("--reuse", flags.reuse,
                  "which cached rows a prompt reuses: exact: those of the tokens that it begins "
                  "with; shift[:least=64,seam=16]: also those of 64 or more tokens in a row that "
                  "stood elsewhere in an earlier prompt, which changes answers a little")
      .shows_default();
  command
      .add_option("--kv-dir", flags.kv_dir,
                  "folder for cached prefixes that outlive the program (default: none)")
      .takes(ValueKind::kFolder)
      .in_group(group);
  command
      .add_bytes("--kv-dir-size", flags.kv_dir_bytes,
                 "most bytes of the folder of --kv-dir, e.g. 4GB (the default)")
      .in_group(group);
  command
      .add_option("--kv-dir-seconds", flags.kv_dir_seconds,
                  "seconds that a request waits for rows from --kv-dir or --kv-store before its "
                  "prompt is computed")
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
  command
      .add_option("--kv-events-topic", flags.events.topic, "topic of these events (default: empty)")
      .in_group(group);
  command
      .add_option("--kv-events-replay", flags.events.replay,
                  "endpoint where subscribers ask for events that they missed: tcp://*:5558")
      .in_group(group);
}

void add_several_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Several models";
  command
      .add_bytes("--models-memory", flags.models_memory,
                 "most memory for all models, their weights and caches; models that were used "
                 "longest ago are unloaded for others (default: what is free at start)")
      .in_group(group);
  command
      .add_flag("--preload", flags.preload,
                "load all models at start (default: the first; others when a request names them)")
      .in_group(group);
}

void add_request_flags(const Command& command, ServeFlags& flags) {
  const char* group = "Requests";
  command
      .add_option("--name", flags.names,
                  "the model's id for clients (default: its file's name); of several models once "
                  "for each, in the order of -m")
      .takes_one()
      .in_group(group);
  command
      .add_option("--lora", flags.lora,
                  "a low-rank adapter that requests choose by its name: NAME=PATH[:SCALE], a GGUF "
                  "file or a PEFT folder (repeatable)")
      .takes_one()
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
      .add_flag("--stop-loops", flags.stop_loops,
                "end answers that repeat one piece of text again and again; a request's field "
                "stop_loops overrides this")
      .in_group(group);
  command
      .add_option("--response-store-mb", flags.response_store_mb,
                  "MiB of memory that keep answers of /v1/responses, so that clients can continue "
                  "from them; 0: none are kept")
      .in_range(0, 1'000'000)
      .shows_default()
      .in_group(group);
  command
      .add_choice<server::LoadForm>(
          "--router", flags.router,
          {{"sglang", server::LoadForm::kSglang}, {"vllm", server::LoadForm::kVllm}},
          "the router in front of this server, in whose format GET /get_load answers")
      .in_group(group);
  add_pooling_flag(command, flags.pooling);
}

}  // namespace

void add_serve(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "serve", "answer requests over HTTP, as OpenAI's, Anthropic's and Ollama's APIs do");
  auto flags = std::make_shared<ServeFlags>();
  add_engine_flags(command, flags->engine, kServeStrategy);
  Option model = command.option("--model");
  model.may_repeat();
  command.describe("--model",
                   "a .gguf file, a Hugging Face folder, or the name of a pulled model (default: "
                   "smollm2); several, each with -m, are chosen by the requests' field model");
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
      .add_option("--max-wait", flags->max_wait_seconds,
                  "most seconds that a request may wait in the queue, estimated from how fast "
                  "earlier requests started; others are refused; 0: no limit")
      .in_range(0.0, 86400.0)
      .shows_default();
  command
      .add_option(
          "--step-ms", flags->step_ms,
          "most milliseconds of a step while an answer grows; prompts get what is left of it")
      .in_range(1.0, 10000.0)
      .shows_default();
  add_several_flags(command, *flags);
  add_request_flags(command, *flags);
  add_cache_flags(command, *flags);
  add_event_flags(command, *flags);
  add_store_flags(command, flags->store);
  add_network_flags(command, *flags);
  add_access_flags(command, flags->access);
  add_watch_flags(command, flags->watch);
  command.runs([&common, flags, model] {
    flags->models = model.given() ? model.all() : std::vector<std::string>{""};
    return serve(*flags, common);
  });
}

}  // namespace kvick::cli
