// kvick bench: measures the speed of prefill and decode, and the bytes that the cache takes.

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench/bench_answers.h"
#include "cli/bench/bench_report.h"
#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/options/machine_limits.h"
#include "cli/options/number_list.h"
#include "cli/options/print_json.h"
#include "cli/options/spec_flag.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"
#include "engine/eval/speed.h"

namespace kvick::cli {
namespace {

// A sweep with more measurements than this is a typing mistake: even with tiny sizes it would take
// hours.
constexpr size_t kMostCases = 1000;

struct BenchFlags {
  EngineFlags engine;
  std::string prompts = "512", decodes = "128", depths = "0", parallels = "1";
  std::string spec, file;
  std::vector<std::string> lora;
  uint32_t repeats = 5;
  bool calibrate = false;
};

base::Result<engine::Sweep> sweep_of(const BenchFlags& flags) {
  engine::Sweep sweep;
  KVICK_TRY(sweep.prompts, parse_numbers("-p", flags.prompts, {.zero_means_none = true}));
  KVICK_TRY(sweep.decodes, parse_numbers("-n", flags.decodes, {.zero_means_none = true}));
  KVICK_TRY(sweep.depths, parse_numbers("-d", flags.depths, {}));
  KVICK_TRY(sweep.parallels, parse_numbers("-b", flags.parallels, {.low = 1, .high = 4096}));
  return sweep;
}

base::Result<std::vector<engine::Measurement>> measure(engine::Engine& engine,
                                                       std::span<const engine::Case> cases,
                                                       engine::SpeedOptions options, bool quiet) {
  Progress progress = stderr_progress(quiet);
  bool started = false;
  options.progress = [&](uint64_t done, uint64_t total) {
    if (!started) progress.start("measuring", Unit::kTokens, total);
    started = true;
    progress.update(done);
  };
  auto results = engine::measure_speed(engine, cases, options);
  if (started) progress.finish();
  return results;
}

// Reads the flags of a run with --spec or --lora, where -p, -n and -b take one number each.
base::Result<BenchAnswers> answers_of(const BenchFlags& flags, const engine::Sweep& sweep) {
  const auto one = [](const std::vector<uint32_t>& numbers) { return numbers.size() == 1; };
  const char* const name = flags.spec.empty() ? "--lora" : "--spec";
  if (!flags.spec.empty() && !flags.lora.empty())
    return base::fail("--spec and --lora are measured one at a time: leave one of them out");
  if (!one(sweep.prompts) || !one(sweep.decodes) || !one(sweep.parallels))
    return base::fail("with {}, -p, -n and -b take one number each", name);
  if (sweep.prompts[0] == 0 || sweep.decodes[0] < 2)
    return base::fail("with {}, -p must be at least 1 and -n at least 2", name);
  if (flags.calibrate)
    return base::fail("{} is not compared with what this machine can do: leave --calibrate out",
                      name);
  if (sweep.depths != std::vector<uint32_t>{0})
    return base::fail("with {}, the depth is the length of the prompt: leave -d out and set -p",
                      name);
  return BenchAnswers{.spec = flags.spec,
                      .lora = flags.lora,
                      .file = flags.file,
                      .prompt = sweep.prompts[0],
                      .decode = sweep.decodes[0],
                      .parallel = sweep.parallels[0],
                      .repeats = flags.repeats};
}

base::Result<int> bench(const BenchFlags& flags, const Common& common) {
  engine::SpeedOptions options;
  options.repeats = flags.repeats;
  KVICK_TRY(const engine::Sweep sweep, sweep_of(flags));
  if (!flags.spec.empty() || !flags.lora.empty()) {
    KVICK_TRY(const BenchAnswers what, answers_of(flags, sweep));
    return bench_answers(what, flags.engine, common);
  }
  if (!flags.file.empty())
    return base::fail("-f gives the text for --spec or --lora: add one of them, or leave -f out");
  const std::vector<engine::Case> cases = engine::cases_of(sweep);
  if (cases.size() > kMostCases)
    return base::fail("-p, -n, -d and -b ask for {} measurements; at most {} are made at once",
                      cases.size(), kMostCases);
  KVICK_TRY(options.kv, kv_options(flags.engine));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  options.kv = engine->resolved(std::move(options.kv));
  const base::CpuTimes before = base::cpu_times();
  KVICK_TRY(std::vector<engine::Measurement> measured,
            measure(*engine, cases, options, common.quiet));
  const std::optional<double> others = base::others_share(before, base::cpu_times());
  // Calibration takes more memory than most models do, so it runs after the peak has been read.
  const uint64_t peak_rss_bytes = base::peak_rss_bytes();
  KVICK_TRY(
      plan::Calibration machine,
      machine_limits(engine->pool(), engine->kernels().isa,
                     {.again = flags.calibrate, .quiet = common.quiet, .others_now = others}));
  BenchReport report = {.engine = *engine,
                        .threads = engine->pool().size(),
                        .kv = options.kv,
                        .sweep = sweep,
                        .repeats = flags.repeats,
                        .peak_rss_bytes = peak_rss_bytes,
                        .others = others,
                        .machine = machine,
                        .results = {}};
  for (engine::Measurement& one : measured)
    report.results.push_back(against_roofline(*engine, options.kv, machine, std::move(one)));
  if (raise_to(report.results, machine)) KVICK_TRY_VOID(keep_raised_limits(machine, common.quiet));
  if (common.json)
    print_json(report_json(report));
  else
    fmt::print("{}", printable(report_text(report)));
  return 0;
}

}  // namespace

void add_bench(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "bench",
      "measure prefill and decode speed, and the cache's memory\n-p, -n, -d and -b take lists such "
      "as 128,512: each prompt is measured at each depth, and each decode with each number of "
      "sequences at each depth\n--spec and --lora measure answers to -p tokens of a text, with and "
      "without drafts or adapters");
  auto flags = std::make_shared<BenchFlags>();
  add_engine_flags(command, flags->engine);
  add_packed_flags(command, flags->engine);
  add_rank_flags(command, flags->engine);
  command.add_option("-p,--prompt", flags->prompts, "tokens of the prompt; 0: no prefill")
      .shows_default();
  command.add_option("-n,--decode", flags->decodes, "tokens to generate; 0: no decode")
      .shows_default();
  command
      .add_option("-d,--depth", flags->depths,
                  "tokens that are in the cache when a measurement starts")
      .shows_default();
  command.add_option("-b,--parallel", flags->parallels, "sequences that decode together")
      .shows_default();
  command.add_option("-r,--repeats", flags->repeats, "timed rounds; the median is shown")
      .shows_default()
      .in_range(1, 1000);
  add_spec_flag(command, flags->spec);
  command
      .add_option(
          "-f,--file", flags->file,
          "with --spec or --lora: the text that prompts are taken from (default: a bundled one)")
      .takes(ValueKind::kFile);
  command
      .add_option("--lora", flags->lora,
                  "measure what an adapter costs, PATH[:SCALE] (repeatable; sequences take the "
                  "adapters in turn)")
      .takes(ValueKind::kFile);
  command.add_flag("--calibrate", flags->calibrate,
                   "measure again how fast this machine reads memory and computes; `roofline` is a "
                   "share of that, and it is kept beside the model cache");
  command.runs([&common, flags] { return bench(*flags, common); });
}

}  // namespace kvick::cli
