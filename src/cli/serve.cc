#include "cli/serve.h"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

#include "server/serve.h"

namespace kvick::cli {
namespace {

using base::Result;

// The id that clients see: the model's file or folder, without what only says its format.
std::string model_name(const ServeFlags& flags) {
  if (!flags.name.empty()) return flags.name;
  if (flags.engine.model.empty()) return "smollm2";
  const std::filesystem::path path(flags.engine.model);
  const std::filesystem::path name = path.has_filename() ? path : path.parent_path();
  return name.extension() == ".gguf" ? name.stem().string() : name.filename().string();
}

server::ServerOptions network_of(const ServeFlags& flags) {
  server::ServerOptions network;
  network.host = flags.host;
  network.port = flags.port;
  network.most_connections = flags.max_connections;
  network.most_body_bytes = flags.max_body;
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

Result<int> serve(const ServeFlags& flags, const Common& common, const ServeParts& parts) {
  server::ApiKeys keys;
  if (!flags.api_key_file.empty()) {
    KVICK_TRY(keys, server::read_api_keys(flags.api_key_file));
  }
  KVICK_TRY(const engine::KvOptions kv, kv_options(flags.engine));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  KVICK_TRY(const std::unique_ptr<engine::Service> service, parts.service(*engine, kv, flags));
  server::ServeOptions options;
  options.network = network_of(flags);
  options.model = model_name(flags);
  options.keys = std::move(keys);
  options.constraint = parts.constraint(*engine);
  options.on_listening = [&](uint16_t port) { say_where(flags, common, port); };
  options.report = [](const std::string& what) { fmt::print(stderr, "kvick: {}\n", what); };
  KVICK_TRY_VOID(server::serve(*engine, *service, std::move(options)));
  return 0;
}

void add_network_flags(CLI::App& command, ServeFlags& flags) {
  const char* group = "Network";
  command.add_option("--host", flags.host, "address to listen on; 0.0.0.0 is all of them")
      ->capture_default_str()
      ->group(group);
  command.add_option("--port", flags.port, "port to listen on; 0: any that is free")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--api-key-file", flags.api_key_file,
                  "keys that clients must give, one a line (default: no key is asked for)")
      ->group(group);
  command.add_option("--max-connections", flags.max_connections, "further ones are refused")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->group(group);
  command.add_option("--max-body", flags.max_body, "most bytes of a request, e.g. 8MB")
      ->transform(CLI::AsSizeValue(false))
      ->group(group);
  command
      .add_option("--drain-seconds", flags.drain_seconds,
                  "time for running requests after Ctrl-C or SIGTERM; a second one ends them")
      ->capture_default_str()
      ->group(group);
}

}  // namespace

void add_serve(CLI::App& app, const Common& common, Run& chosen, ServeParts parts) {
  CLI::App* command =
      app.add_subcommand("serve", "answer requests over HTTP, in the form of OpenAI's API");
  auto flags = std::make_shared<ServeFlags>();
  add_engine_flags(*command, flags->engine);
  command->add_option("--name", flags->name,
                      "the model's id for clients (default: its file's name)");
  command->add_option("--max-seqs", flags->max_seqs, "sequences that run at once")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--max-queue", flags->max_queue, "requests that may wait; others are refused")
      ->capture_default_str();
  command->add_option("--kv-dir", flags->kv_dir,
                      "folder for cached prefixes that outlive the program (default: none)");
  add_network_flags(*command, *flags);
  command->callback([&common, &chosen, flags, parts = std::move(parts)] {
    chosen = [&common, flags, parts] {
      const auto status = serve(*flags, common, parts);
      return status.ok() ? *status : refuse(status.error());
    };
  });
}

}  // namespace kvick::cli
