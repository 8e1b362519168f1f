#include "cli/commands/serve_models.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <set>

#include "base/memory.h"
#include "cli/models/models.h"
#include "cli/options/spec_flag.h"
#include "engine/prefix/prefix_files.h"
#include "engine/prefix/prefix_loader.h"
#include "engine/serving/instances.h"
#include "io/file/split_name.h"
#include "kv/registry/policies.h"
#include "server/openai/answer_forms.h"

namespace kvick::cli {
namespace {

using base::Result;

// Returns the name of the model's file or folder, without the ending .gguf.
std::string name_of(const std::string& model) {
  if (model.empty()) return "smollm2";
  const std::filesystem::path path(model);
  const std::filesystem::path name = path.has_filename() ? path : path.parent_path();
  return name.extension() == ".gguf" ? name.stem().string() : name.filename().string();
}

Result<engine::EngineThreadOptions> thread_options(const engine::Engine& engine,
                                                   const ServeFlags& flags,
                                                   const EngineFlags& engine_flags, Watch& watch) {
  if (flags.events.endpoint.empty() && !(flags.events.topic + flags.events.replay).empty())
    return base::fail("--kv-events-topic and --kv-events-replay need --kv-events");
  // The range checks of the options accept NaN.
  if (std::isnan(flags.step_ms + flags.kv_dir_seconds + flags.max_wait_seconds))
    return base::fail("--step-ms, --kv-dir-seconds and --max-wait must be numbers");
  engine::EngineThreadOptions options;
  KVICK_TRY(options.batch.kv, kv_options(engine_flags));
  KVICK_TRY(options.batch.spec, spec_of(flags.spec));
  // Rows are kept in blocks, so that prompts share a common prefix, unless the model, a policy that
  // forgets rows or a tier needs another strategy.
  const bool own_way = engine.model().trained_slots() != nullptr ||
                       kv::forgets(options.batch.kv.select) || options.batch.kv.tier;
  if (options.batch.kv.spec.name.empty() && !own_way) options.batch.kv.spec.name = kServeStrategy;
  options.batch.kv_bytes = std::exchange(options.batch.kv.max_bytes, UINT64_MAX);
  options.batch.max_sequences = flags.max_seqs;
  options.batch.step_seconds = flags.step_ms / 1000;
  KVICK_TRY(options.batch.reuse, engine::parse_reuse_options(flags.reuse));
  options.batch.report = watch.says("engine");
  options.batch.crash_notes = &watch.crash_notes;
  options.most_waiting = flags.max_queue;
  options.most_wait_seconds = flags.max_wait_seconds;
  options.batch.file_seconds = flags.kv_dir_seconds;
  const char* tier = !flags.kv_dir.empty() ? "--kv-dir" : "--kv-store";
  if (!flags.kv_dir.empty() || flags.store.wanted())
    if (const std::string why = engine::why_no_files(engine, options.batch.kv); !why.empty())
      watch.say("store", fmt::format("{}: {}", tier, why));
  if (flags.store.wanted()) {
    KVICK_TRY(options.batch.store, open_store(flags.store, watch.says("store")));
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

// Returns the bytes of a model's file with its other parts, or of all files in its folder. This is
// roughly the memory that the weights will take.
uint64_t file_bytes(const std::filesystem::path& path) {
  std::error_code ignored;
  uint64_t bytes = 0;
  const auto add = [&](const std::filesystem::path& file) {
    const uintmax_t size = std::filesystem::file_size(file, ignored);
    if (!ignored) bytes += size;
  };
  if (!std::filesystem::is_directory(path, ignored)) {
    for (const std::string& part : io::split_paths(path.string())) add(part);
    return bytes;
  }
  std::filesystem::directory_iterator entry(path, ignored);
  for (; !ignored && entry != std::filesystem::directory_iterator(); entry.increment(ignored))
    if (entry->is_regular_file(ignored)) add(entry->path());
  return bytes;
}

// Returns the bytes of weights in memory. Experts read from disk count only up to their limit in
// memory.
uint64_t weight_bytes(const model::Model& model) {
  const auto experts = model.expert_stats();
  if (!experts) return model.weight_bytes();
  return model.weight_bytes() - model.weights().experts.bytes + experts->limit_bytes;
}

// A loaded model. The members are destroyed from last to first.
struct Running {
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<server::KvEventPublisher> events;
  std::unique_ptr<engine::Service> service;
};

base::Status<> open_events(const ServeFlags& flags, engine::EngineThreadOptions& options,
                           Running& running, Watch& watch) {
  if (flags.events.endpoint.empty()) return base::Done{};
  const auto watcher = std::make_shared<engine::PrefixEvents>();
  KVICK_TRY(running.events, server::KvEventPublisher::open(flags.events, watcher));
  options.batch.kv.watcher = watcher;
  watch.say("note", fmt::format("events of the prefix cache at {}{}{}", running.events->endpoint(),
                                flags.events.replay.empty() ? "" : ", missed ones at ",
                                running.events->replay_endpoint()));
  return base::Done{};
}

void report_absent(server::ModelHost& host, uint64_t most_bytes, Watch& watch) {
  std::vector<std::string> absent;
  for (size_t i = 0; i < host.size(); ++i)
    if (host.look(i) == nullptr) absent.push_back(host.name(i));
  if (absent.empty()) return;
  watch.say(
      "model",
      fmt::format("--preload: not all models fit in {} MB (--models-memory): {} will be "
                  "loaded when a request names {}",
                  most_bytes >> 20, fmt::join(absent, ", "), absent.size() == 1 ? "it" : "them"));
}

// Returns the first option given that works with one model only; empty: none was given.
std::string option_of_one_model(const ServeFlags& flags) {
  if (flags.engine.ranks) return "--ranks";
  if (!flags.kv_dir.empty()) return "--kv-dir";
  if (flags.store.wanted()) return "--kv-store";
  if (!flags.events.endpoint.empty()) return "--kv-events";
  if (!flags.lora.empty()) return "--lora";
  return "";
}

}  // namespace

std::vector<std::string> model_names(const ServeFlags& flags) {
  if (!flags.names.empty()) return flags.names;
  std::vector<std::string> names;
  for (const std::string& model : flags.models) names.push_back(name_of(model));
  return names;
}

base::Status<> check_models(const ServeFlags& flags) {
  const size_t count = flags.models.size();
  if (!flags.names.empty() && flags.names.size() != count)
    return base::fail("--name was given {} times, and there are {} models: give it once for each",
                      flags.names.size(), count);
  std::set<std::string> names;
  for (const std::string& name : model_names(flags))
    if (!names.insert(name).second)
      return base::fail("two models are called {}: give each a --name of its own", name);
  if (count == 1 && (flags.models_memory != 0 || flags.preload))
    return base::fail(
        "--models-memory and --preload are for several models: give -m more than "
        "once, or leave them out");
  if (const std::string option = option_of_one_model(flags); count > 1 && !option.empty())
    return base::fail("{} takes one model: give -m once, or leave {} out", option, option);
  return base::Done{};
}

Result<std::vector<base::Team>> teams_of(const ServeFlags& flags) {
  if (flags.instances == 1) return std::vector<base::Team>();
  if (flags.engine.ranks)
    return base::fail(
        "--instances are copies of a model in one process, and --ranks one model in "
        "several: leave one of them out");
  return base::make_teams(base::available_cores(), flags.instances, flags.engine.threads);
}

ModelLoader::ModelLoader(const ServeFlags& flags, const Common& common,
                         std::span<const base::Team> teams, const server::ClientLimits& limits,
                         Watch& watch)
    : flags_(flags),
      common_(common),
      teams_(teams),
      limits_(limits),
      watch_(watch),
      most_bytes_(flags.models_memory != 0 ? flags.models_memory : base::available_memory_bytes()) {
}

// The caches share a quarter of the memory equally. All free memory, the default for a single
// model, would leave none for the other models.
uint64_t ModelLoader::kv_bytes() const {
  if (flags_.engine.kv_memory != 0) return flags_.engine.kv_memory;
  return std::max<uint64_t>(most_bytes_ / 4 / flags_.models.size(), 1);
}

Result<EngineFlags> ModelLoader::flags_of(size_t model) const {
  EngineFlags flags = flags_.engine;
  flags.model = flags_.models[model];
  flags.fingerprint = !flags_.kv_dir.empty() || flags_.store.wanted();
  if (flags_.models.size() > 1) flags.kv_memory = kv_bytes();
  for (const std::string& text : flags_.lora) {
    KVICK_TRY(engine::AdapterOptions adapter, engine::parse_adapter(text, true));
    if (adapter.name == model_names(flags_)[model])
      return base::fail("--lora {}: the model itself is named {}; give the adapter another name",
                        text, adapter.name);
    flags.adapters.push_back(std::move(adapter));
  }
  return flags;
}

Result<server::LoadedModel> ModelLoader::load(size_t number) const {
  KVICK_TRY(EngineFlags engine_flags, flags_of(number));
  engine_flags.encoders = true;
  engine_flags.given_up = &given_up_;
  if (flags_.watch.format == server::LogFormat::kJson) engine_flags.says = watch_.says("model");
  const auto running = std::make_shared<Running>();
  KVICK_TRY(running->engine, open_engine(engine_flags, common_));
  engine::Engine& engine = *running->engine;
  KVICK_TRY(engine::EngineThreadOptions options,
            thread_options(engine, flags_, engine_flags, watch_));
  KVICK_TRY_VOID(open_events(flags_, options, *running, watch_));
  KVICK_TRY(running->service, make_service(engine, teams_, options));
  server::LoadedModel model = {.owner = running,
                               .engine = &engine,
                               .service = running->service.get(),
                               .constraint = server::answer_forms(engine.tokenizer()),
                               .limits = limits_,
                               .bytes = weight_bytes(engine.model()) + engine_flags.kv_memory};
  model.limits.own_kv = options.batch.kv;
  return model;
}

Result<std::unique_ptr<server::ModelHost>> ModelLoader::open_host() const {
  if (flags_.models.size() > 1) return open_several();
  KVICK_TRY(server::LoadedModel model, load(0));
  return std::make_unique<server::ModelHost>(model_names(flags_).front(), std::move(model));
}

Result<std::unique_ptr<server::ModelHost>> ModelLoader::open_several() const {
  const std::vector<std::string> names = model_names(flags_);
  std::vector<server::ModelSource> sources;
  for (size_t i = 0; i < names.size(); ++i) {
    KVICK_TRY(const std::filesystem::path path, find_model(flags_.models[i]));
    sources.push_back({.name = names[i], .bytes = file_bytes(path) + kv_bytes(), .load = [this, i] {
                         return load(i);
                       }});
  }
  auto host = std::make_unique<server::ModelHost>(
      std::move(sources), server::HostOptions{.max_bytes = most_bytes_,
                                              .most_waiting = flags_.max_queue,
                                              .report = watch_.says("model"),
                                              .give_up_load = [this] { given_up_ = true; }});
  const size_t at_start = flags_.preload ? names.size() : 1;
  for (size_t i = 0; i < at_start; ++i) KVICK_TRY_VOID(host->load(i));
  if (flags_.preload) report_absent(*host, most_bytes_, watch_);
  return host;
}

}  // namespace kvick::cli
