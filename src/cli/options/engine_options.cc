#include "cli/options/engine_options.h"

#include <cstdio>
#include <fmt/format.h>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/models/model_use.h"
#include "cli/models/models.h"
#include "cli/options/ranks.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"
#include "engine/options/layer_options.h"
#include "io/packed/packed_folder.h"
#include "kernels/table/table.h"
#include "kv/registry/policies.h"
#include "kv/tier/tier.h"
#include "model/ranks/ranks.h"

namespace kvick::cli {
namespace {

// A line with the options of a strategy or a policy and their defaults, to go below its name. It is
// indented more than names are, so that completion does not offer it (listed_names).
std::string options_line(std::span<const kv::Option> options) {
  std::string text;
  for (const kv::Option& option : options)
    text += fmt::format("{}{}={}", text.empty() ? "\n    options: " : ", ", option.name,
                        option.fallback.empty() ? "..." : option.fallback);
  return text;
}

std::string tier_help() {
  std::string text =
      "keys and values in a slower tier, and a bounded part of them in memory: "
      "NAME[:key=value,...]";
  const auto add = [&](std::span<const kv::Option> options) {
    for (const kv::Option& option : options)
      text += fmt::format("\n    {:<10} {}{}", option.name, option.summary,
                          option.fallback.empty() ? "" : fmt::format(" ({})", option.fallback));
  };
  for (const kv::TierKind& kind : kv::tier_kinds()) {
    text += fmt::format("\n  {:<6} {}", kind.name, kind.summary);
    add(kind.options);
  }
  text += "\n  all of them:";
  add(kv::common_tier_options());
  return text;
}

// Reads --packed. A problem with the default folder gives a note, not an error.
base::Result<std::optional<io::PackedOptions>> packed_options(const EngineFlags& flags,
                                                              std::vector<std::string>& notes) {
  if (flags.packed.empty()) return base::fail("--packed is empty: give auto, off or a folder");
  for (const char* word : {"on", "yes", "true", "no", "false", "none"})
    if (flags.packed == word)
      return base::fail("--packed {0} is not known: auto or off (for a folder of that name, ./{0})",
                        word);
  if (flags.packed == "off") return std::optional<io::PackedOptions>();
  io::PackedOptions options;
  options.max_bytes = flags.packed_size;
  options.say = [&notes](const std::string& note) { notes.push_back(note); };
  if (flags.packed != "auto") {
    options.folder = flags.packed;
    options.least_bytes = 0;
    return std::optional(std::move(options));
  }
  auto folder = packed_dir();
  if (!folder.ok()) {
    notes.push_back("packed weights are not kept: " + folder.error().message);
    return std::optional<io::PackedOptions>();
  }
  options.folder = *std::move(folder);
  return std::optional(std::move(options));
}

// Headings of the help. The options needed first have no heading and come before them.
constexpr const char *kCacheGroup = "Cache", *kArithmeticGroup = "Arithmetic",
                     *kWeightsGroup = "Weights in memory", *kRanksGroup = "Several processes";

void add_arithmetic_flags(const Command& command, EngineFlags& flags) {
  command
      .add_choice<engine::Attention>(
          "--attn", flags.attention,
          {{"fused", engine::Attention::kFused}, {"bmm", engine::Attention::kBmm}},
          "how attention is computed: fused: by kvick's kernels, over the cached rows; bmm: by a "
          "library's batched products over whole buckets, as in BMC (needs --kv-type f32)")
      .in_group(kArithmeticGroup);
  command
      .add_choice<engine::PromptArithmetic>(
          "--prompt-arithmetic", flags.prompt_arithmetic,
          {{"exact", engine::PromptArithmetic::kExact},
           {"tiles", engine::PromptArithmetic::kTiles},
           {"auto", engine::PromptArithmetic::kAuto}},
          "how prompts are computed: exact: in the arithmetic of answers, so that later prompts "
          "reuse the rows of answers; tiles: in bfloat16 on AMX tiles, about twice as fast, but "
          "answers that are part of a later prompt are computed again; auto: tiles on processors "
          "with AMX")
      .in_group(kArithmeticGroup);
  command
      .add_choice<engine::FloatActivations>(
          "--float-activations", flags.float_activations,
          {{"f32", engine::FloatActivations::kF32},
           {"bf16", engine::FloatActivations::kBf16},
           {"auto", engine::FloatActivations::kAuto}},
          "what weights of BF16 and F16 are multiplied with: f32; bf16: activations rounded to "
          "bfloat16, F16 weights too, up to twice as fast; auto: bf16 where this processor "
          "multiplies it at least 1.5 times as fast, which is measured at start")
      .in_group(kArithmeticGroup);
}

// Returns notes about what the cache options mean for this model. Error: no type can be chosen for
// it.
base::Result<std::vector<std::string>> cache_notes(const engine::Engine& engine,
                                                   const EngineFlags& flags) {
  KVICK_TRY(const engine::KvOptions kv, kv_options(flags));
  std::vector<std::string> notes =
      engine::layer_notes(engine.model().config(), engine.resolved(kv));
  if (kv.automatic) {
    KVICK_TRY(const engine::ChosenType chosen, engine.choose_type(kv));
    notes.push_back(auto_note(chosen));
  }
  return notes;
}

}  // namespace

std::string auto_note(const engine::ChosenType& chosen) {
  return fmt::format("--kv-type auto chose {}: {:.0f} bytes a token, KL {:.4f} from f16 on {}",
                     chosen.measured.type, chosen.measured.bytes_per_token, chosen.measured.kl_mean,
                     chosen.text);
}

void add_model_flags(const Command& command, EngineFlags& flags) {
  command
      .add_option("-m,--model", flags.model,
                  "a .gguf file, a Hugging Face folder, or the name of a pulled model "
                  "(default: smollm2)")
      .takes(ValueKind::kModel);
  command.add_option("--threads", flags.threads, "threads that compute (default: all processors)")
      .in_range(1, 1024);
}

void add_engine_flags(const Command& command, EngineFlags& flags, std::string_view strategy) {
  add_model_flags(command, flags);
  std::string strategies;
  for (const kv::Strategy& one : kv::strategies())
    strategies += fmt::format("\n  {:<10} {}{}", one.name, one.summary, options_line(one.options));
  command.add_option("--kv", flags.kv,
                     "how keys and values are kept (docs/reference/strategies.md): "
                     "NAME[:key=value,...], by default " +
                         std::string(strategy.empty() ? kv::strategies().front().name : strategy) +
                         ", or bounded for a model that needs it" + strategies);
  command
      .add_option(
          "--kv-type", flags.kv_type,
          "type of keys and values: f32, f16, bf16, q8, q4, q3, q2, static8:FILE or "
          "static16:FILE (kvick train ranges makes the file), or k=q8,v=q4; or one that "
          "changes with age: mixed[:window=128,old=q8], kivi4[:window=128]; quantised ones "
          "take rotate=on or off, as in q4:rotate=on; or auto[:kl=0.01,file=PATH]: the "
          "smallest type whose KL divergence from f16, measured by kvick train kvtypes, "
          "stays within kl (default: f16; a memory of slots is f32). Behind any of these, or "
          "alone: state=bf16, the type of the states of recurrent layers, as in "
          "q8,state=bf16 (default: state=f32)")
      .suggests({"auto", "f16", "q8", "q4:rotate=on", "kivi4"})
      .in_group(kCacheGroup);
  command.add_option("--kv-tier", flags.kv_tier, tier_help()).in_group(kCacheGroup);
  std::string policies;
  for (const kv::Policy& policy : kv::policies())
    policies +=
        fmt::format("\n  {:<12} {}{}", policy.name, policy.summary, options_line(policy.options));
  command
      .add_option("--kv-select", flags.kv_select,
                  "which of the rows are read (docs/reference/strategies.md): "
                  "NAME[:budget=0.25,...], by default all of them" +
                      policies +
                      "\n  auto:loss=0.02,policy=NAME,...: this policy (default: quest), with a "
                      "budget that is raised while checks find that it misses more than the share "
                      "loss of the attention")
      .in_group(kCacheGroup);
  add_arithmetic_flags(command, flags);
  command.add_option("--ctx", flags.context,
                     "most tokens of a sequence (0, the default: the model's context)");
  command
      .add_bytes("--kv-memory", flags.kv_memory,
                 "most memory for keys and values, e.g. 512MB (0, the default: what is free)")
      .in_group(kCacheGroup);
}

void add_packed_flags(const Command& command, EngineFlags& flags) {
  flags.packed = "auto";
  command
      .add_option(
          "--packed", flags.packed,
          "where packed weights are kept, which make the next start fast and are shared by "
          "processes that run the same model: auto: beside the model cache, for models of at least "
          "256 MiB; off: nowhere; or a folder, for models of any size (default: auto)")
      .takes(ValueKind::kFolder)
      .suggests({"auto", "off"})
      .in_group(kWeightsGroup);
  command
      .add_bytes("--packed-size", flags.packed_size,
                 "most bytes of the packed weights on disk, e.g. 20GB; the least recently used are "
                 "deleted (0, the default: a quarter of the disk's free space)")
      .in_group(kWeightsGroup);
  command
      .add_bytes("--expert-memory", flags.expert_memory,
                 "for a mixture of experts that is larger than the memory: the most that its "
                 "experts may take, e.g. 8GB; those used most stay in memory, the others are "
                 "read from the packed weights when a token needs them (default: all experts)")
      .in_group(kWeightsGroup);
}

Option add_rank_activations(const Command& command, EngineFlags& flags) {
  return command.add_choice<model::WireFormat>(
      "--rank-activations", flags.rank_format,
      {{"f32", model::WireFormat::kF32},
       {"bf16", model::WireFormat::kBf16},
       {"int8", model::WireFormat::kInt8}},
      "type of the sums that ranks on several machines send each other: f32, or rounded to bf16 "
      "(half the bytes) or int8 (a quarter)");
}

void add_rank_flags(const Command& command, EngineFlags& flags) {
  command
      .add_flag("--ranks", flags.ranks,
                "the processes that mpirun has started run this model together, each a part of "
                "every layer: mpirun -np 2 kvick COMMAND --ranks (docs/scale.md)")
      .in_group(kRanksGroup);
  command
      .add_flag("--pipeline", flags.pipeline,
                "with --ranks: each process runs some of the layers instead of a part of every "
                "layer; for slow networks and long prompts")
      .in_group(kRanksGroup);
  add_rank_activations(command, flags).in_group(kRanksGroup);
  command
      .add_option(
          "--rank-seconds", flags.rank_seconds,
          "seconds that a rank may be silent while others wait for it; then all of them end")
      .in_range(0.1, 3600.0)
      .shows_default()
      .in_group(kRanksGroup);
}

base::Result<engine::KvOptions> kv_options(const EngineFlags& flags) {
  KVICK_TRY(engine::KvOptions options,
            engine::parse_kv_options(flags.kv, flags.kv_type, flags.kv_tier, flags.kv_select));
  options.max_tokens = flags.context;
  // Without a limit, a cache that allocates everything at once could exceed the free memory, and
  // the process would be killed.
  const uint64_t free =
      base::available_memory_bytes() / (flags.ranks ? ranks_on_this_machine() : 1);
  options.max_bytes = flags.kv_memory != 0 ? flags.kv_memory : free;
  return options;
}

base::Result<std::unique_ptr<engine::Engine>> open_engine(const EngineFlags& flags,
                                                          const Common& common) {
  KVICK_TRY(const base::Isa isa, kernels::choose_isa());
  KVICK_TRY(const std::filesystem::path path, find_model(flags.model));
  KVICK_TRY(RankStart start, start_ranks(flags, common));
  const bool speaks = !common.quiet && (start.ranks == nullptr || start.ranks->leads());
  Progress progress = stderr_progress(!speaks || flags.says);
  const auto say = [&](const std::string& note) {
    flags.says ? flags.says(note) : fmt::print(stderr, "kvick: {}\n", printable(note));
  };
  std::vector<std::string> notes;
  const auto open = [&]() -> base::Result<std::unique_ptr<engine::Engine>> {
    if (flags.pipeline && flags.rank_format != model::WireFormat::kF32)
      return base::fail(
          "--rank-activations {} rounds the sums of ranks, and --pipeline has no such sums: leave "
          "one of them out",
          model::wire_name(flags.rank_format));
    KVICK_TRY(std::optional<io::PackedOptions> packed, packed_options(flags, notes));
    if (flags.expert_memory > 0 && !packed)
      return base::fail(
          "--expert-memory reads experts from the packed weights: leave out --packed off, or give "
          "it a folder");
    return engine::Engine::open(
        {.model_path = path.string(),
         .threads = flags.threads != 0 ? flags.threads : start.threads,
         .isa = isa,
         .attention = flags.attention,
         .prompt_arithmetic = flags.prompt_arithmetic,
         .fingerprint = flags.fingerprint,
         .float_activations = flags.float_activations,
         .progress =
             [&](uint64_t done, uint64_t total) {
               if (flags.given_up != nullptr && *flags.given_up)
                 throw std::runtime_error("the program ends");
               progress.report("loading " + path.filename().string(), Unit::kBytes, done, total);
             },
         .ranks = start.ranks,
         .split = flags.pipeline ? model::RankSplit::kPipeline : model::RankSplit::kTensor,
         .packed = std::move(packed),
         .expert_bytes = flags.expert_memory,
         .adapters = flags.adapters});
  };
  auto engine = open();
  progress.finish();
  for (const std::string& note : notes)
    if (!common.quiet) say(note);
  engine = join_ranks(start.ranks, std::move(engine));
  if (engine.ok() && !flags.encoders) KVICK_TRY_VOID((*engine)->check_writes());
  if (engine.ok())
    if (const auto cache = models_dir(); cache.ok()) mark_used(path, *cache);
  if (engine.ok()) {
    KVICK_TRY(notes, cache_notes(**engine, flags));
    for (const std::string& note : notes)
      if (!common.quiet) say(note);
  }
  return engine;
}

int refuse(const base::Error& error) {
  fmt::print(stderr, "kvick: {}\n", printable(error.message));
  return 2;
}

}  // namespace kvick::cli
