// kvick plan: predicts the memory and speed of a model with its cache.

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu_times.h"
#include "base/memory.h"
#include "cli/commands/commands.h"
#include "cli/commands/plan_ranks.h"
#include "cli/commands/plan_report.h"
#include "cli/models/models.h"
#include "cli/options/engine_options.h"
#include "cli/options/print_json.h"
#include "cli/terminal/terminal.h"

namespace kvick::cli {
namespace {

struct PlanFlags {
  EngineFlags engine;
  std::string shape, network;
  unsigned ranks = 1;
  uint64_t memory = 0, expert_memory = 0;
  uint32_t batch = 1;
  uint32_t spec_rows = 1;
  double spec_tokens = 1;
};

base::Result<plan::ModelSize> model_of(const PlanFlags& flags) {
  if (!flags.shape.empty() && !flags.engine.model.empty())
    return base::fail("give a model or a --shape, not both");
  if (!flags.shape.empty()) return plan::parse_shape(flags.shape);
  KVICK_TRY(const std::filesystem::path path, find_model(flags.engine.model));
  KVICK_TRY(const io::ModelFile file, io::ModelFile::open(path.string()));
  return plan::size_of(file);
}

// Chooses the types of --kv-type auto as Engine::choose_type does, but without loading the weights.
base::Status<> choose_types(const PlanFlags& flags, const kernels::Table& kernels,
                            base::ThreadPool& pool, PlanReport& report) {
  if (!report.kv.automatic) return base::Done{};
  if (!flags.shape.empty())
    return base::fail(
        "--kv-type auto chooses by a measurement of a model, and a --shape has none: name a type");
  KVICK_TRY(const std::filesystem::path path, find_model(flags.engine.model));
  KVICK_TRY(const io::ModelFile file, io::ModelFile::open(path.string()));
  engine::AutoTypes types(path.string(),
                          engine::identity_of(report.model.config, engine::weights_of(file)));
  const auto accepts = [&](const engine::KvOptions& kv) {
    PlanReport one = report;
    one.kv = kv;
    return check_plan(one, kernels, pool).ok();
  };
  KVICK_TRY(const engine::ChosenType chosen, types.choose(report.kv, accepts));
  report.kv = chosen.options;
  report.notes.push_back(auto_note(chosen));
  return base::Done{};
}

base::Result<int> make_plan(const PlanFlags& flags, const Common& common) {
  KVICK_TRY(const plan::ModelSize model, model_of(flags));
  KVICK_TRY(engine::KvOptions kv, kv_options(flags.engine));
  if (model.config.arch == "bct")
    return base::fail(
        "{} keeps a memory of slots, whose size does not depend on the load: there is "
        "nothing to plan",
        model.config.name);
  if (kv.spec.name.empty()) kv.spec.name = kv::default_strategy(false, kv.tier.has_value()).name;
  const uint32_t tokens = kv.max_tokens != 0 ? kv.max_tokens : model.config.context;
  if (tokens > model.config.context)
    return base::fail("a context of {} tokens was asked for, but the model has {}", tokens,
                      model.config.context);
  if (!(flags.spec_tokens <= flags.spec_rows))
    return base::fail(
        "a step of {} rows cannot give {} tokens; raise --spec-rows or lower "
        "--spec-tokens",
        flags.spec_rows, flags.spec_tokens);
  if (flags.expert_memory != 0 && plan::packed_expert_bytes(model) == 0)
    return base::fail("{} has no experts that could stay on the disk: leave --expert-memory out",
                      model.config.name);
  if (flags.ranks == 1 && flags.engine.rank_format != model::WireFormat::kF32)
    return base::fail(
        "--rank-activations is the type of what --ranks send each other: give both, or neither");
  if ((flags.ranks > 1) == flags.network.empty())
    return base::fail("--ranks and --network belong together: --ranks 2 --network 10Gb/s,30us");
  plan::Network network;
  if (flags.ranks > 1) {
    KVICK_TRY(network, plan::parse_network(flags.network));
    network.format = flags.engine.rank_format;
  }
  KVICK_TRY(const base::Isa isa, kernels::choose_isa());
  base::ThreadPool pool(flags.engine.threads != 0 ? flags.engine.threads : base::available_cpus());
  PlanReport report = {
      .model = model,
      .kv = kv,
      .tokens = tokens,
      .batch = flags.batch,
      .memory_bytes = flags.memory != 0 ? flags.memory : base::available_memory_bytes(),
      .kv_memory = flags.engine.kv_memory != 0 ? flags.engine.kv_memory : UINT64_MAX,
      .expert_memory = flags.expert_memory,
      .ways = {},
      .prompts = flags.engine.prompt_arithmetic,
      .growths = 0,
      .spec_rows = flags.spec_rows,
      .spec_tokens = flags.spec_tokens};
  KVICK_TRY(const kernels::Table* table, engine::choose_table(isa, flags.engine.float_activations));
  if (report.prompts == engine::PromptArithmetic::kTiles && table->matmul_prompt == nullptr)
    return base::fail("prompts on tiles need amx, but this runs on {}: ask for auto",
                      base::isa_name(isa));
  KVICK_TRY_VOID(choose_types(flags, *table, pool, report));
  if (!common.quiet) fmt::print(stderr, "measuring layers of this shape ...\n");
  const base::CpuTimes before = base::cpu_times();
  KVICK_TRY_VOID(fill_plan(pool, *table, flags.engine.attention, report));
  if (flags.ranks > 1 && report.unpredicted.empty()) {
    KVICK_TRY(report.ranks, plan_ranks(pool, *table, {flags.ranks, network}, report));
  }
  report.others = base::others_share(before, base::cpu_times());
  if (common.json)
    print_json(plan_json(report));
  else
    fmt::print("{}", printable(plan_text(report)));
  return 0;
}

}  // namespace

void add_plan(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "plan",
      "memory, traffic and speed of a model with a cache on this machine, and advice; reads no "
      "weights");
  auto flags = std::make_shared<PlanFlags>();
  add_engine_flags(command, flags->engine);
  command.add_option("--shape", flags->shape,
                     "instead of a model: layers=..,heads=..,kv_heads=..,head_dim=..[,dim=..]"
                     "[,ffn=..][,vocab=..][,context=..][,type=Q8_0]");
  command.add_option("-b,--batch", flags->batch, "sequences at a time")
      .shows_default()
      .in_range(1, 65536);
  command
      .add_option("--spec-rows", flags->spec_rows,
                  "rows of a step with drafts, for which bmc's number of growths is chosen")
      .shows_default()
      .in_range(1, 1024);
  command
      .add_option("--spec-tokens", flags->spec_tokens,
                  "tokens that a step with drafts yields on average")
      .shows_default()
      .in_range(1.0, 1024.0);
  command.add_bytes("--expert-memory", flags->expert_memory,
                    "the most that experts may take, as in serve; speeds are those of tokens whose "
                    "experts are all in memory (default: all experts)");
  command.add_bytes("--memory", flags->memory,
                    "memory for weights and cache together, e.g. 16GB (default: what is free)");
  command
      .add_option(
          "--ranks", flags->ranks,
          "number of machines like this one: compares one model on all of them with a copy on each")
      .in_range(1, 1024);
  command.add_option(
      "--network", flags->network,
      "the network between the machines: rate and one-way latency, e.g. 10Gb/s,30us");
  add_rank_activations(command, flags->engine);
  command.runs([&common, flags] { return make_plan(*flags, common); });
}

}  // namespace kvick::cli
