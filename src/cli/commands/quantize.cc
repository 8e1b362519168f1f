// kvick quantize: writes a model file with smaller weights, from a GGUF file or a Hugging Face
// folder.

#include "quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "quantize/encode.h"

#include "base/text_file.h"
#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/options/engine_options.h"
#include "cli/options/print_json.h"
#include "cli/terminal/progress.h"
#include "engine/eval/perplexity.h"
#include "model/core/vocabulary.h"
#include "plan/forecast/model_size.h"

namespace kvick::cli {
namespace {

using nlohmann::ordered_json;
using quantize::Choice;

struct QuantizeFlags {
  std::string from, output, type = "Q4_K_M", importance, check;
  std::vector<std::string> overrides;
  unsigned threads = 0;
  uint32_t check_tokens = 4096;
  bool dry_run = false;
};

base::Result<std::pair<std::string, kernels::DType>> parse_override(const std::string& text) {
  const size_t at = text.rfind('=');
  const auto type = at == std::string::npos
                        ? std::nullopt
                        : kernels::dtype_from_name(std::string_view(text).substr(at + 1));
  if (at == 0 || !type || static_cast<int>(*type) >= kernels::kWeightTypes ||
      !quantize::can_encode(*type))
    return base::fail(
        "--tensor-type {}: must be NAME=TYPE, such as 'blk.*.ffn_down.weight=Q6_K', with a type "
        "that kvick writes: F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q5_1, Q5_0, Q4_K, Q4_1, Q4_0, "
        "IQ4_NL, IQ4_XS, MXFP4, Q3_K, IQ3_S, IQ3_XXS, Q2_K, IQ2_S, IQ2_XS, IQ2_XXS, IQ1_M, IQ1_S, "
        "TQ2_0 or TQ1_0",
        text);
  return std::pair(text.substr(0, at), *type);
}

// Sums over all tensors of one type.
struct OfType {
  uint64_t tensors = 0, weights = 0, bytes = 0;
  double error = 0, squares = 0;
  double relative_error() const { return squares > 0 ? std::sqrt(error / squares) : 0; }
};
struct Totals {
  std::map<std::string_view, OfType> types;
  uint64_t weights = 0, bytes = 0, quantised = 0, weighted = 0, again = 0;
  double bits_each() const {
    return 8.0 * static_cast<double>(bytes) / static_cast<double>(weights);
  }
};
bool is_float(kernels::DType type) { return kernels::dtype_info(type).block == 1; }
Totals totals_of(const std::vector<Choice>& choices) {
  Totals totals;
  for (const Choice& choice : choices) {
    const uint64_t weights = choice.tensor->rows() * choice.tensor->inputs();
    OfType& sum = totals.types[kernels::dtype_info(choice.type).name];
    sum.tensors += 1;
    sum.weights += weights;
    sum.bytes += choice.bytes;
    sum.error += choice.error;
    sum.squares += choice.squares;
    totals.weights += weights;
    totals.bytes += choice.bytes;
    totals.quantised += is_float(choice.type) ? 0 : 1;
    totals.weighted += choice.weighted ? 1 : 0;
    // Counts tensors that were quantised before: the errors of both roundings add up.
    totals.again += !choice.kept() && !is_float(choice.tensor->type) && !is_float(choice.type);
  }
  return totals;
}

ordered_json to_json(const QuantizeFlags& flags, const Totals& totals,
                     const engine::Perplexity* check) {
  ordered_json types = ordered_json::array();
  for (const auto& [name, sum] : totals.types)
    types.push_back({{"type", name},
                     {"tensors", sum.tensors},
                     {"weights", sum.weights},
                     {"bytes", sum.bytes},
                     {"relative_error", sum.relative_error()}});
  ordered_json json = {{"output", flags.output},
                       {"type", flags.type},
                       {"bytes", totals.bytes},
                       {"bits_per_weight", totals.bits_each()},
                       {"tensors_with_importance", totals.weighted},
                       {"types", types}};
  if (check != nullptr)
    json["check"] = {{"tokens", check->tokens},
                     {"perplexity", check->perplexity},
                     {"source_perplexity", check->reference_perplexity},
                     {"perplexity_ratio", check->perplexity / check->reference_perplexity},
                     {"kl_mean", check->kl_mean},
                     {"kl_p99", check->kl_p99},
                     {"top1_agreement", check->top1_agreement}};
  return json;
}

void print_totals(const QuantizeFlags& flags, const Totals& totals) {
  fmt::print("{:<8} {:>8} {:>16} {:>12} {:>14}\n", "type", "tensors", "weights", "size",
             "relative error");
  for (const auto& [name, sum] : totals.types)
    fmt::print("{:<8} {:>8} {:>16} {:>12} {:>14}\n", name, sum.tensors, sum.weights,
               amount_text(static_cast<double>(sum.bytes), Unit::kBytes),
               flags.dry_run ? std::string("-") : fmt::format("{:.5f}", sum.relative_error()));
  fmt::print("{}{}: {}, {:.2f} bits per weight\n", flags.dry_run ? "would write " : "",
             flags.output.empty() ? flags.type : flags.output,
             amount_text(static_cast<double>(totals.bytes), Unit::kBytes), totals.bits_each());
}

void print_check(const QuantizeFlags& flags, const engine::Perplexity& check) {
  fmt::print(
      "on {} tokens of {}: perplexity {:.4f}, of the source {:.4f} ({:+.2f} %)\n"
      "KL divergence from the source: mean {:.5f}, 99th percentile {:.5f}; same likeliest token "
      "{:.2f} %\n",
      check.tokens, flags.check, check.perplexity, check.reference_perplexity,
      100 * (check.perplexity / check.reference_perplexity - 1), check.kl_mean, check.kl_p99,
      100 * check.top1_agreement);
}

base::Result<std::unique_ptr<engine::Engine>> open_exact(const std::string& path,
                                                         const QuantizeFlags& flags,
                                                         const Common& common) {
  EngineFlags engine;
  engine.model = path;
  engine.threads = flags.threads;
  engine.prompt_arithmetic = engine::PromptArithmetic::kExact;
  engine.float_activations = engine::FloatActivations::kF32;
  return open_engine(engine, common);
}

// Compares the new file with its source on a text.
base::Result<engine::Perplexity> compare(const QuantizeFlags& flags, const std::string& source,
                                         const std::string& text, const Common& common) {
  KVICK_TRY(const std::unique_ptr<engine::Engine> reference, open_exact(source, flags, common));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_exact(flags.output, flags, common));
  engine::PerplexityOptions options;
  const uint32_t context = engine->model().config().context;
  options.window = std::min<uint32_t>(512, context);
  options.most = flags.check_tokens;
  options.reference = reference.get();
  Progress progress = stderr_progress(common.quiet);
  bool started = false;
  options.progress = [&](uint64_t done, uint64_t total) {
    if (!started) progress.start("comparing on " + flags.check, Unit::kTokens, total);
    started = true;
    progress.update(done);
  };
  const std::vector<engine::Token> tokens = engine->tokenizer().encode(text, false, false);
  auto result = engine::perplexity(*engine, tokens, options);
  if (started) progress.finish();
  return result;
}

// Finds mistakes in the paths before the file is written, which takes minutes.
base::Status<> check_paths(const QuantizeFlags& flags, const std::filesystem::path& from) {
  if (flags.dry_run) return base::Done{};
  if (flags.output.empty())
    return base::fail("-o is missing: the file to write; --dry-run shows what it would hold");
  std::error_code none;
  if (std::filesystem::equivalent(from, flags.output, none))
    return base::fail("{}: input and output are the same file; give another file with -o",
                      flags.output);
  if (std::filesystem::is_directory(flags.output, none))
    return base::fail("{}: is a folder; name a file, such as {}", flags.output,
                      (std::filesystem::path(flags.output) / "model.gguf").string());
  return base::Done{};
}

base::Result<std::string> read_text(const std::string& path) {
  if (path.empty()) return std::string();
  KVICK_TRY(std::string text, base::read_text(path));
  if (text.empty()) return base::fail("{}: is empty: there is nothing to compare on", path);
  return text;
}

// Finds a text that compare() would refuse, before the file is written.
base::Status<> check_text(const QuantizeFlags& flags, const io::ModelFile& file,
                          const std::string& text) {
  if (text.empty()) return base::Done{};
  KVICK_TRY(const plan::ModelSize model, plan::size_of(file));
  if (model.config.both_ways())
    return base::fail("{}: is an encoder, which predicts no text: leave --check out", flags.from);
  KVICK_TRY(text::Vocabulary vocabulary, model::read_vocabulary(file));
  KVICK_TRY(const auto tokenizer, text::Tokenizer::make(std::move(vocabulary)));
  const size_t all = tokenizer->encode(text, false, false).size();
  const size_t tokens = flags.check_tokens != 0 ? std::min<size_t>(all, flags.check_tokens) : all;
  if (tokens < 2)
    return base::fail("{}: tokens to compare on: {}; at least 2 are needed", flags.check, tokens);
  return base::Done{};
}

void note_losses(const Totals& totals, const Common& common) {
  if (common.quiet || totals.again == 0) return;
  fmt::print(stderr,
             "kvick: {} tensors of the source are quantised already: errors of both roundings add "
             "up; a source in BF16 or F16 gives a better file\n",
             totals.again);
}

base::Result<int> run_quantize(const QuantizeFlags& flags, const Common& common) {
  quantize::Options options;
  KVICK_TRY(options.recipe, quantize::find_recipe(flags.type));
  for (const std::string& text : flags.overrides) {
    KVICK_TRY(auto parsed, parse_override(text));
    options.overrides.push_back(std::move(parsed));
  }
  KVICK_TRY(const std::filesystem::path from, find_model(flags.from));
  KVICK_TRY_VOID(check_paths(flags, from));
  KVICK_TRY(const std::string text, read_text(flags.check));
  quantize::Importance importance;
  if (!flags.importance.empty()) {
    KVICK_TRY(importance, quantize::read_importance(flags.importance));
    options.importance = &importance;
  }
  Totals totals;
  {
    KVICK_TRY(const io::ModelFile file, io::ModelFile::open(from.string()));
    KVICK_TRY_VOID(check_text(flags, file, text));
    KVICK_TRY(const quantize::Source source, quantize::Source::make(file));
    KVICK_TRY(std::vector<Choice> choices, quantize::choose(source, options));
    note_losses(totals_of(choices), common);
    if (!flags.dry_run) {
      base::ThreadPool pool(flags.threads != 0 ? flags.threads : base::available_cpus());
      Progress progress = stderr_progress(common.quiet);
      bool started = false;
      options.progress = [&](uint64_t done, uint64_t total) {
        if (!started) progress.start("writing " + flags.output, Unit::kBytes, total);
        started = true;
        progress.update(done);
      };
      KVICK_TRY_VOID(quantize::write(source, options, choices, flags.output, pool));
      if (started) progress.finish();
    }
    totals = totals_of(choices);
    if (options.importance != nullptr && totals.weighted == 0)
      return base::fail("{}: knows none of this model's tensors: it was measured on another model",
                        flags.importance);
  }
  if (!common.json) print_totals(flags, totals);
  std::unique_ptr<engine::Perplexity> check;
  if (!text.empty() && !flags.dry_run) {
    KVICK_TRY(const engine::Perplexity result, compare(flags, from.string(), text, common));
    check = std::make_unique<engine::Perplexity>(result);
    if (!common.json) print_check(flags, *check);
  }
  if (common.json) print_json(to_json(flags, totals, check.get()));
  return 0;
}

}  // namespace

void add_quantize(const Command& app, const Common& common) {
  const Command command =
      app.add_command("quantize",
                      "write a model file with smaller weights, from a GGUF file or a Hugging Face "
                      "folder");
  auto flags = std::make_shared<QuantizeFlags>();
  command
      .add_option(
          "model", flags->from,
          "what is read: a .gguf file, a Hugging Face folder, or the name of a pulled model")
      .takes(ValueKind::kModel)
      .required();
  command.add_option("-o,--output", flags->output, "the .gguf file to write")
      .takes(ValueKind::kFile);
  std::vector<std::string> names;
  for (const quantize::Recipe& recipe : quantize::recipes()) names.emplace_back(recipe.name);
  command
      .add_option("--type", flags->type,
                  fmt::format("which types its tensors get, as llama.cpp names such mixtures: {}",
                              fmt::join(names, ", ")))
      .suggests(names)
      .shows_default();
  command
      .add_option(
          "--importance", flags->importance,
          "how much each column counts: a file of kvick train imatrix, or of "
          "llama-imatrix in either form (.gguf, .dat); makes files of 4 bits and less better, and "
          "those of IQ2 and IQ1 are not written without it")
      .takes(ValueKind::kFile);
  command
      .add_option("--tensor-type", flags->overrides,
                  "NAME=TYPE: another type for tensors of that name, in which * stands for any "
                  "text; may be given several times, and the first that fits counts")
      .takes_one();
  command
      .add_option("--check", flags->check,
                  "a text on which the new file is compared with the source: perplexity, KL "
                  "divergence, agreement on the likeliest token")
      .takes(ValueKind::kFile);
  command.add_option("--check-tokens", flags->check_tokens, "only the first N tokens of it; 0: all")
      .shows_default();
  command.add_flag("--dry-run", flags->dry_run, "show what would be written, and write nothing");
  command.add_option("--threads", flags->threads, "threads that compute (default: all processors)")
      .in_range(1, 1024);
  command.runs([&common, flags] { return run_quantize(*flags, common); });
}

}  // namespace kvick::cli
