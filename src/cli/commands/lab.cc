// kvick lab: runs experiments with strategies.

#include "lab/core/lab.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <set>

#include "base/memory.h"
#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/options/engine_options.h"
#include "cli/options/print_json.h"
#include "cli/terminal/progress.h"
#include "lab/core/report.h"
#include "lab/data/shapes.h"

namespace kvick::cli {
namespace {

struct LabFlags {
  EngineFlags engine;
  std::string experiment, folder, file;
  kvick::lab::Bounding bounded;
  std::vector<std::string> shapes, stores, types, specs, bandwidths;
  kvick::lab::Selecting select;
  uint32_t rounds = 0, batch = 0, prompts = 0, prompt = 0, text_tokens = 0, answer = 0;
  bool again = false, quick = false;
};

// Opens models when an experiment asks for them. By default it opens the model that the flags name.
class Models {
 public:
  Models(const EngineFlags& flags, const Common& common) : flags_(flags), common_(common) {}
  base::Result<engine::Engine*> open(engine::Attention attention) {
    return open(flags_.model, attention);
  }
  base::Result<engine::Engine*> open(const std::string& model, engine::Attention attention) {
    std::unique_ptr<engine::Engine>& engine = opened_[{model, attention}];
    if (engine == nullptr) {
      EngineFlags flags = flags_;
      flags.model = model;
      flags.attention = attention;
      // Exact, so that results can be compared with those of other machines and other days.
      flags.prompt_arithmetic = engine::PromptArithmetic::kExact;
      flags.fingerprint = true;  // one experiment keeps rows in files, which need it
      flags.float_activations = engine::FloatActivations::kF32;
      KVICK_TRY(engine, open_engine(flags, common_));
    }
    return engine.get();
  }

 private:
  const EngineFlags& flags_;
  const Common& common_;
  std::map<std::pair<std::string, engine::Attention>, std::unique_ptr<engine::Engine>> opened_;
};

// Gives the options of an experiment that the user left out its quick sizes.
void make_quick(const kvick::lab::ExperimentRow& row, LabFlags& flags) {
  const kvick::lab::QuickSizes& quick = row.quick;
  const auto set = [](uint32_t& value, uint32_t size) {
    if (value == 0) value = size;
  };
  const auto set_one = [](std::vector<std::string>& values, const char* value) {
    if (values.empty() && value != nullptr) values = {value};
  };
  set(flags.engine.context, quick.ctx);
  set(flags.batch, quick.batch);
  set(flags.prompts, quick.prompts);
  set(flags.prompt, quick.prompt);
  set(flags.text_tokens, quick.tokens);
  set(flags.answer, quick.answer);
  set(flags.rounds, 1);
  set_one(flags.shapes, quick.shape);
  set_one(flags.select.budgets, quick.budget);
  set_one(flags.bandwidths, quick.bandwidth);
}

// Quotes a word for a shell: in single quotes if it holds more than letters, digits and kPlain.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "%+,-./:=@_";
  const auto plain = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           static_cast<unsigned char>(c) >= 0x80 || kPlain.find(c) != kPlain.npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_of(const LabFlags& flags) {
  std::string text = "kvick lab " + flags.experiment;
  for (const std::string& shape : flags.shapes) text += " --shape " + quoted(shape);
  if (!flags.engine.model.empty()) text += " -m " + quoted(flags.engine.model);
  if (!flags.file.empty()) text += " --file " + quoted(flags.file);
  for (const std::string& kv : flags.stores) text += " --kv " + quoted(kv);
  for (const std::string& type : flags.types) text += " --kv-type " + quoted(type);
  if (!flags.engine.kv_tier.empty()) text += " --kv-tier " + quoted(flags.engine.kv_tier);
  for (const std::string& spec : flags.specs) text += " --spec " + quoted(spec);
  for (const std::string& policy : flags.select.policies) text += " --kv-select " + quoted(policy);
  for (const std::string& budget : flags.select.budgets) text += " --budget " + quoted(budget);
  if (!flags.select.predictor.empty()) text += " --predictor " + quoted(flags.select.predictor);
  if (!flags.select.components.empty()) text += " --components " + quoted(flags.select.components);
  if (!flags.select.scores.empty()) text += " --scores " + quoted(flags.select.scores);
  if (!flags.select.heads.empty()) text += " --heads " + quoted(flags.select.heads);
  for (const std::string& model : flags.bounded.models) text += " --bounded " + quoted(model);
  for (const std::string& recall : flags.bounded.recall) text += " --recall " + quoted(recall);
  if (flags.bounded.trained > 0) text += fmt::format(" --trained {}", flags.bounded.trained);
  for (const std::string& bandwidth : flags.bandwidths) text += " --bandwidth " + quoted(bandwidth);
  if (flags.prompts > 0) text += fmt::format(" --prompts {}", flags.prompts);
  if (flags.prompt > 0) text += fmt::format(" --prompt {}", flags.prompt);
  if (flags.text_tokens > 0) text += fmt::format(" --tokens {}", flags.text_tokens);
  if (flags.answer > 0) text += fmt::format(" --answer {}", flags.answer);
  if (flags.engine.context > 0) text += fmt::format(" --ctx {}", flags.engine.context);
  if (flags.batch > 0) text += fmt::format(" --batch {}", flags.batch);
  if (flags.rounds > 0) text += fmt::format(" --rounds {}", flags.rounds);
  return text + " -o " + quoted(flags.folder);
}

// Error: an option that the experiment does not read.
base::Status<> check_options(const kvick::lab::ExperimentRow& row, const LabFlags& flags) {
  const std::pair<std::string_view, bool> options[] = {
      {"--shape", !flags.shapes.empty()},
      {"--file", !flags.file.empty()},
      {"--ctx", flags.engine.context > 0},
      {"--batch", flags.batch > 0},
      {"--kv", !flags.stores.empty()},
      {"--kv-type", !flags.types.empty()},
      {"--kv-tier", !flags.engine.kv_tier.empty()},
      {"--spec", !flags.specs.empty()},
      {"--kv-select", !flags.select.policies.empty()},
      {"--budget", !flags.select.budgets.empty()},
      {"--predictor", !flags.select.predictor.empty()},
      {"--components", !flags.select.components.empty()},
      {"--scores", !flags.select.scores.empty()},
      {"--heads", !flags.select.heads.empty()},
      {"--bounded", !flags.bounded.models.empty()},
      {"--recall", !flags.bounded.recall.empty()},
      {"--trained", flags.bounded.trained > 0},
      {"--bandwidth", !flags.bandwidths.empty()},
      {"--prompts", flags.prompts > 0},
      {"--prompt", flags.prompt > 0},
      {"--tokens", flags.text_tokens > 0},
      {"--answer", flags.answer > 0}};
  for (const auto& [option, given] : options)
    if (given && !kvick::lab::reads(row, option))
      return base::fail(
          "{} does not read {}: leave it out; of the options that only some experiments read, it "
          "reads {}",
          row.name, option, row.reads);
  return base::Done{};
}

base::Result<int> lab(LabFlags flags, const Common& common) {
  const kvick::lab::ExperimentRow* row = kvick::lab::find_experiment(flags.experiment);
  if (row == nullptr) {
    std::string names;
    for (const auto& one : kvick::lab::experiments())
      names += (names.empty() ? "" : ", ") + std::string(one.name);
    return base::fail("there is no experiment {}; there are {}", flags.experiment, names);
  }
  KVICK_TRY_VOID(check_options(*row, flags));
  if (flags.quick) make_quick(*row, flags);
  KVICK_TRY(const base::Isa isa, kernels::choose_isa());
  base::ThreadPool pool(flags.engine.threads != 0 ? flags.engine.threads : base::available_cpus());
  Models models(flags.engine, common);
  Progress progress = stderr_progress(common.quiet);
  std::string model_path;
  if (!flags.engine.model.empty()) {
    KVICK_TRY(const std::filesystem::path path, find_model(flags.engine.model));
    model_path = path.string();
  }
  const kvick::lab::Bench bench = {
      .pool = pool,
      .kernels = kernels::table(isa),
      .model = [&](engine::Attention attention) { return models.open(attention); },
      .open = [&](const std::string& path) { return models.open(path, engine::Attention::kFused); },
      .model_path = model_path,
      .shapes = flags.shapes,
      .file = flags.file,
      .tokens = flags.engine.context,
      .batch = flags.batch,
      .stores = flags.stores,
      .types = flags.types,
      .specs = flags.specs,
      .tier = flags.engine.kv_tier,
      .select = flags.select,
      .bounded = flags.bounded,
      .bandwidths = flags.bandwidths,
      .prompts = flags.prompts,
      .prompt = flags.prompt,
      .text_tokens = flags.text_tokens,
      .answer = flags.answer,
      .note = [&](std::string_view line) { progress.note(line); }};
  bool started = false;
  auto result =
      kvick::lab::run_experiment(*row, bench,
                                 {.folder = flags.folder,
                                  .rounds = flags.rounds,
                                  .again = flags.again,
                                  .machine = {{"cpu", base::cpu_name()},
                                              {"isa", base::isa_name(isa)},
                                              {"threads", pool.size()}},
                                  .command = command_of(flags),
                                  .progress = [&](uint64_t done, uint64_t total, std::string_view) {
                                    if (!started)
                                      progress.start(flags.experiment, Unit::kRuns, total);
                                    started = true;
                                    progress.update(done);
                                  }});
  if (started) progress.finish();
  if (!result.ok()) return result.error();
  if (common.json) {
    print_json(result->report);
    return 0;
  }
  fmt::print("{}\n", result->text);
  fmt::print("{}\n", result->file.string());
  return 0;
}

// Adds the flags of experiments with policies that select rows.
void add_selecting_flags(const Command& command, LabFlags& flags) {
  command.add_option("--kv-select", flags.select.policies,
                     "policies to compare, without a budget (default: all; those that need a file "
                     "only if it is given)");
  command.add_option("--budget", flags.select.budgets,
                     "their budgets: shares of the rows, such as 0.25, or numbers of rows");
  command
      .add_option("--predictor", flags.select.predictor,
                  "maple's file, as kvick train distil makes it")
      .takes(ValueKind::kFile);
  command
      .add_option("--components", flags.select.components,
                  "loki's file, as kvick train pca makes it")
      .takes(ValueKind::kFile);
  command.add_option("--scores", flags.select.scores, "kvzap's file, as kvick train kvzap makes it")
      .takes(ValueKind::kFile);
  command.add_option("--heads", flags.select.heads, "duo's file, as kvick train duo makes it")
      .takes(ValueKind::kFile);
  command.add_option("--bandwidth", flags.bandwidths,
                     "bandwidths of the slower tier, such as 4GB/s (tier)");
  command.add_option("--prompt", flags.prompt,
                     "first tokens of each window, which are read as a prompt with all rows and "
                     "are not scored (budget; default: 0); in sharing and preemption, tokens of a "
                     "prompt (default: 512, 96)");
  command.add_option(
      "--tokens", flags.text_tokens,
      "tokens of the file that are read (budget, bounded, quant; default: 4 windows; "
      "quant: 8)");
}

// Adds the flags of the experiment `bounded`.
void add_bounded_flags(const Command& command, LabFlags& flags) {
  command
      .add_option(
          "--bounded", flags.bounded.models,
          "models with a memory of slots, which are compared with the model of -m (bounded)")
      .takes(ValueKind::kModel);
  command
      .add_option("--recall", flags.bounded.recall,
                  "summary.json of runs of kvick train --task mqar or copy (bounded)")
      .takes(ValueKind::kFile);
  command
      .add_option("--trained", flags.bounded.trained,
                  "tokens of the windows that the models were trained on: longer contexts are "
                  "marked (bounded)")
      .in_range(1, 1 << 30);
}

}  // namespace

void add_lab(const Command& app, const Common& common) {
  std::string list;
  for (const auto& row : kvick::lab::experiments())
    list += fmt::format("\n  {:<20} {}", row.name, row.summary);
  const Command command =
      app.add_command("lab",
                      "run an experiment with strategies and write JSON into a folder, from which "
                      "tools/report --draw makes charts and a page; results that are already there "
                      "are not measured again" +
                          list);
  auto flags = std::make_shared<LabFlags>();
  command.add_option("experiment", flags->experiment, "one of the above").required();
  command.add_option("-o,--out", flags->folder, "folder for the results")
      .takes(ValueKind::kFolder)
      .required();
  std::string shapes;
  for (const auto& shape : kvick::lab::named_shapes())
    shapes += fmt::format("{}{} ({})", shapes.empty() ? "" : ", ", shape.name, shape.model);
  command.add_option("--shape", flags->shapes, "shapes of attention to measure: " + shapes);
  command.add_option("--file", flags->file, "a text or a trace, where an experiment needs one")
      .takes(ValueKind::kFile);
  command.add_option("-m,--model", flags->engine.model, "a model, where an experiment needs one")
      .takes(ValueKind::kModel);
  command
      .add_option("--threads", flags->engine.threads,
                  "threads that compute (default: all processors)")
      .in_range(1, 1024);
  command
      .add_option("--ctx", flags->engine.context,
                  "tokens of a context, where an experiment of a whole model has one")
      .in_range(16, 1 << 20);
  command
      .add_option("-b,--batch", flags->batch,
                  "sequences that grow together, where an experiment of a whole model has them")
      .in_range(1, 4096);
  command.add_option("--kv", flags->stores, "caches to compare (spec, depth, scaling)");
  command.add_option("--kv-type", flags->types, "types of rows to compare (spec, scaling)");
  command.add_option("--kv-tier", flags->engine.kv_tier, "the slower tier of caches that have one");
  command.add_option("--spec", flags->specs, "ways to draft tokens to compare (spec)");
  command
      .add_option("--prompts", flags->prompts,
                  "prompts of each category (default: 10); in needle, facts at each depth "
                  "(default: 3); in moved, places (default: 12); in waste, prefix, serving and "
                  "preemption, requests (default: all, all, 64, 32)")
      .in_range(1, 1 << 20);
  command
      .add_option("--answer", flags->answer,
                  "most tokens of an answer (spec; default: 64); in sharing and preemption, tokens "
                  "of an answer (default: 128, 288)")
      .in_range(2, 1 << 20);
  add_selecting_flags(command, *flags);
  add_bounded_flags(command, *flags);
  command.add_option("--rounds", flags->rounds, "rounds (default: the experiment's own number)")
      .in_range(1, 1000);
  command.add_flag("--quick", flags->quick,
                   "sizes that take seconds where no option gives one, and one round: to see the "
                   "direction");
  command.add_flag("--again", flags->again,
                   "measure again even if the folder already holds these results; others stay");
  command.runs([&common, flags] { return lab(*flags, common); });
}

}  // namespace kvick::cli
