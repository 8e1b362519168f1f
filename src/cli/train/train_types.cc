// kvick train kvtypes: measures what each type of cache rows costs for a model on a text.

#include "cli/train/train_types.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/models/models.h"
#include "cli/options/print_json.h"
#include "cli/train/train_text.h"
#include "engine/eval/measure_types.h"
#include "engine/eval/perplexity.h"

namespace kvick::cli {
namespace {

struct TypesFlags : TextFlags {
  engine::TypesOptions options = {.types = {}, .window = 1024, .most = 8192};
};

nlohmann::ordered_json to_json(const engine::TypesFile& file, const engine::TypesMeasured& measured,
                               double kl, const std::string& path) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(engine::types_text(file));
  const bool found = measured.recommended < measured.types.size();
  json["kl"] = kl;
  json["recommended"] = found ? nlohmann::ordered_json(measured.types[measured.recommended].type)
                              : nlohmann::ordered_json();
  json["file"] = path;
  return json;
}

void print_table(const engine::TypesMeasured& measured, double kl) {
  fmt::print("{:<32} {:>12} {:>10} {:>10} {:>8} {:>12} {:>8}\n", "type", "bytes/token", "KL mean",
             "KL p99", "top-1 %", "perplexity", "f16 %");
  for (const engine::TypeMeasured& one : measured.types)
    fmt::print("{:<32} {:>12.0f} {:>10.5f} {:>10.5f} {:>8.2f} {:>12.4f} {:>+8.2f}\n", one.type,
               one.bytes_per_token, one.kl_mean, one.kl_p99, 100 * one.top1_agreement,
               one.perplexity, 100 * (one.perplexity / measured.f16_perplexity - 1));
  if (measured.recommended < measured.types.size())
    fmt::print("the fewest bytes within a KL of {}, with a quarter to spare: --kv-type {}\n", kl,
               measured.types[measured.recommended].type);
  else
    fmt::print("none of these is within a KL of {}\n", kl);
}

// Returns the path of the output file. Error: that of check_output.
base::Result<std::string> output_of(const TypesFlags& flags) {
  std::string path = flags.output;
  if (path.empty()) {
    KVICK_TRY(const std::filesystem::path model, find_model(flags.engine.model));
    path = engine::types_path(model.string());
  }
  KVICK_TRY_VOID(check_output(path));
  return path;
}

// Returns the types measured for this model before; none if `path` has nothing readable about it.
std::optional<engine::TypesFile> measured_before(const std::string& path,
                                                 const engine::ModelIdentity& model) {
  base::Result<engine::TypesFile> file = engine::read_types(path, model);
  if (!file.ok()) return std::nullopt;
  return std::move(*file);
}

// Keeps the other types of `before` if they belong to the same measurement. If they do not, a
// measurement of all types replaces them, but one of a few named types is an error.
base::Status<> keep_before(engine::TypesFile& file, const engine::TypesFile& before,
                           const std::string& path, bool named) {
  const base::Status<> kept = engine::keep_others(file, before);
  if (kept.ok() || !named) return base::Done{};
  return base::fail(
      "{} has types of another measurement, which would be lost: {}; give another file with -o, or "
      "leave --kv-type out to measure all types again",
      path, kept.error().message);
}

base::Result<int> train_types(const TypesFlags& flags, const Common& common) {
  KVICK_TRY(const std::string path, output_of(flags));
  KVICK_TRY(const OpenText text, open_text(flags, common));
  engine::Engine& engine = *text.engine;
  engine::TypesOptions options = flags.options;
  options.window = std::min(options.window, engine.model().config().context);
  const bool named = !options.types.empty();
  const std::optional<engine::TypesFile> before = measured_before(path, engine.identity());
  engine::TypesFile file = {
      .model = engine.identity(),
      .text = flags.text_name(),
      .tokens = engine::predicted_tokens(text.tokens.size(),
                                         {.window = options.window, .most = options.most}),
      .window = options.window};
  if (before) {
    // Checked before minutes are spent. The perplexity of f16 is not known yet.
    engine::TypesFile asked = file;
    asked.f16_perplexity = before->f16_perplexity;
    KVICK_TRY_VOID(keep_before(asked, *before, path, named));
  }
  const auto measure = [&](const Report& report) {
    options.progress = report;
    return engine::measure_types(engine, text.tokens, options);
  };
  KVICK_TRY(const engine::TypesMeasured measured,
            with_progress("reading " + flags.file, common, measure));
  file.tokens = measured.tokens;
  file.f16_perplexity = measured.f16_perplexity;
  file.types = measured.types;
  // The table is printed first: it took minutes to measure, and the file may fail to be written.
  if (common.json)
    print_json(to_json(file, measured, options.kl, path));
  else
    print_table(measured, options.kl);
  if (before) KVICK_TRY_VOID(keep_before(file, *before, path, named));
  KVICK_TRY_VOID(engine::write_types(path, file));
  if (!common.json)
    fmt::print("written to {0}; --kv-type auto:kl={1} chooses by it{2}\n", path, options.kl,
               flags.output.empty() ? "" : fmt::format(" with file={}", path));
  return 0;
}

}  // namespace

void add_types(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "kvtypes", "what each type of cache rows loses and saves on a text, for --kv-type auto");
  auto flags = std::make_shared<TypesFlags>();
  // Exact, as in kvick ppl: types are compared, and only some of them can use tiles.
  flags->engine.prompt_arithmetic = engine::PromptArithmetic::kExact;
  add_text_flags(command, *flags);
  command
      .add_option(
          "-o,--output", flags->output,
          "the file to write, which --kv-type auto:file=FILE reads (default: beside the model, "
          "where auto looks); it keeps other types that were measured on the same text")
      .takes(ValueKind::kFile);
  command.add_option("--kv-type", flags->options.types,
                     "a type to measure, as kvick run takes it (repeatable; default: a list from "
                     "f16 to q2)");
  command.add_option("--tokens", flags->options.most, "only the first N tokens; 0: all")
      .shows_default();
  command.add_option("--window", flags->options.window, "tokens that are read as one sequence")
      .shows_default()
      .in_range(2, 1 << 20);
  command
      .add_option("--kl", flags->options.kl,
                  "how far the recommended type may stray from f16: mean KL divergence, in nats")
      .shows_default();
  command.runs([&common, flags] { return train_types(*flags, common); });
}

}  // namespace kvick::cli
