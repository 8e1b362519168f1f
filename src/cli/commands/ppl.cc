// kvick ppl: measures the perplexity of a text, and the divergence from another cache or another
// model.

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "base/text_file.h"
#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/options/print_json.h"
#include "cli/terminal/progress.h"
#include "engine/eval/perplexity.h"

namespace kvick::cli {
namespace {

struct PplFlags {
  EngineFlags engine;
  std::string file, against, reference;
  uint32_t most = 0, window = 0, prompt = 0;
};

bool compares(const PplFlags& flags) { return !flags.against.empty() || !flags.reference.empty(); }

nlohmann::ordered_json to_json(const engine::Perplexity& p, bool compared) {
  nlohmann::ordered_json json = {{"perplexity", p.perplexity},
                                 {"nll", p.nll},
                                 {"nll_error", p.nll_error},
                                 {"tokens", p.tokens},
                                 {"kl_mean", p.kl_mean},
                                 {"kl_p99", p.kl_p99},
                                 {"top1_agreement", p.top1_agreement},
                                 {"kv_read_bytes_per_token", p.kv_read_bytes_per_token},
                                 {"slow_read_bytes_per_token", p.slow_read_bytes_per_token},
                                 {"kv_bytes", p.kv_bytes}};
  if (compared) {
    json["reference_perplexity"] = p.reference_perplexity;
    json["perplexity_ratio"] = p.perplexity / p.reference_perplexity;
  }
  return json;
}

// Returns "model.gguf with --kv bmc", or the part of it that was given.
std::string reference_name(const PplFlags& flags) {
  if (flags.reference.empty()) return "--kv " + flags.against;
  return flags.reference + (flags.against.empty() ? "" : " with --kv " + flags.against);
}

void print_result(const PplFlags& flags, const engine::Perplexity& result, uint32_t window) {
  fmt::print("perplexity {:.4f} (+- {:.4f}) over {} tokens in windows of {}\n", result.perplexity,
             result.perplexity * result.nll_error, result.tokens, window);
  if (!compares(flags)) return;
  fmt::print("against {}: perplexity {:.4f}, ratio {:.6f}\n", reference_name(flags),
             result.reference_perplexity, result.perplexity / result.reference_perplexity);
  fmt::print("KL mean {:.6f}, 99th percentile {:.6f}, same likeliest token {:.2f} %\n",
             result.kl_mean, result.kl_p99, 100 * result.top1_agreement);
}

// Opens the second model, with the first model's flags but another file. Null without --reference.
base::Result<std::unique_ptr<engine::Engine>> open_reference(const PplFlags& flags,
                                                             const Common& common) {
  if (flags.reference.empty()) return std::unique_ptr<engine::Engine>();
  EngineFlags reference = flags.engine;
  reference.model = flags.reference;
  return open_engine(reference, common);
}

base::Result<uint32_t> window_of(const PplFlags& flags, const engine::KvOptions& kv) {
  const uint32_t context = flags.engine.context;
  if (flags.window == 0) return context != 0 ? context : 1024;
  if (context == 0 || context >= flags.window) return flags.window;
  // Without --kv the model chooses its strategy. None of those is endless, so the first strategy of
  // the table stands in.
  const kv::Strategy* named = kv::find_strategy(kv.spec.name);
  const kv::Strategy& strategy = named != nullptr ? *named : kv::strategies().front();
  const kv::Traits traits = kv::traits_of(strategy, {}, kv.spec, kv.select);
  if (traits.endless && traits.most_kept <= context) return flags.window;
  return base::fail(
      "--window {} is longer than --ctx {}, the longest sequence of {}: raise --ctx or shorten "
      "--window",
      flags.window, context, strategy.name);
}

base::Result<int> ppl(const PplFlags& flags, const Common& common) {
  KVICK_TRY(const std::string text, base::read_text(flags.file));
  engine::PerplexityOptions options;
  KVICK_TRY(options.kv, kv_options(flags.engine));
  KVICK_TRY(options.window, window_of(flags, options.kv));
  options.prompt = flags.prompt;
  options.most = flags.most;
  if (!flags.against.empty()) {
    EngineFlags reference = flags.engine;
    reference.kv = flags.against;
    const std::string_view name =
        std::string_view(flags.against).substr(0, flags.against.find(':'));
    const kv::Strategy* strategy = kv::find_strategy(name);
    if (strategy != nullptr && !strategy->traits.tiered) reference.kv_tier.clear();
    reference.kv_select.clear();
    KVICK_TRY(options.against, kv_options(reference));
  }
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  KVICK_TRY(const std::unique_ptr<engine::Engine> reference, open_reference(flags, common));
  options.reference = reference.get();
  // The default window exceeds the context of some models.
  if (flags.window == 0 && flags.engine.context == 0)
    for (const engine::Engine* one : {engine.get(), reference.get()})
      if (one != nullptr) options.window = std::min(options.window, one->model().config().context);
  const std::vector<engine::Token> tokens = engine->tokenizer().encode(text, false, false);
  Progress progress = stderr_progress(common.quiet);
  bool started = false;
  options.progress = [&](uint64_t done, uint64_t total) {
    if (!started) progress.start("reading " + flags.file, Unit::kTokens, total);
    started = true;
    progress.update(done);
  };
  KVICK_TRY(const engine::Perplexity result, engine::perplexity(*engine, tokens, options));
  if (started) progress.finish();
  if (common.json)
    print_json(to_json(result, compares(flags)));
  else
    print_result(flags, result, options.window);
  return 0;
}

}  // namespace

void add_ppl(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "ppl", "perplexity of a text, and the cost of a lossy cache or of lossy weights");
  auto flags = std::make_shared<PplFlags>();
  // Exact, because caches are compared and only some types of rows can use tiles.
  flags->engine.prompt_arithmetic = engine::PromptArithmetic::kExact;
  add_engine_flags(command, flags->engine);
  add_packed_flags(command, flags->engine);
  add_rank_flags(command, flags->engine);
  command.describe(
      "--ctx",
      "tokens of one window (default: 1024, or the model's context if it is shorter), or the "
      "context of an endless cache in a longer --window");
  command.add_option("--window", flags->window,
                     "tokens of one window (default: --ctx); more than --ctx with --kv sliding and "
                     "--kv-select streaming:budget=ROWS");
  command.add_option("--prompt", flags->prompt,
                     "tokens of each window that are read as a prompt, from all rows, and do not "
                     "count (default: 0)");
  command.add_option("-f,--file", flags->file, "the text").takes(ValueKind::kFile).required();
  command.add_option("--tokens", flags->most, "only the first N tokens (default: all)");
  command.add_option(
      "--against", flags->against,
      "another --kv spec to compare with: KL divergence, agreement on the likeliest token");
  command
      .add_option("--reference", flags->reference,
                  "another model to compare with, such as the same weights in F32: what -m "
                  "takes, with the same vocabulary; its cache is kept as --against says, or as "
                  "--kv does")
      .takes(ValueKind::kModel);
  command.runs([&common, flags] { return ppl(*flags, common); });
}

}  // namespace kvick::cli
