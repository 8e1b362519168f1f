#include "cli/bench/bench_answers.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "cli/bench/bench_text.h"
#include "cli/options/print_json.h"
#include "cli/options/spec_flag.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"
#include "engine/eval/speed.h"

namespace kvick::cli {
namespace {

using base::fail;
using base::Result;
using Prompts = std::vector<std::vector<engine::Token>>;

// Prompts that are cut from a long text, for each sequence that runs at once.
constexpr size_t kPieces = 4;

// Cuts the text into prompts of what.prompt tokens, up to kPieces * what.parallel of them. A text
// shorter than a prompt, such as the bundled one, is a single prompt.
Result<Prompts> prompts_of(const engine::Engine& engine, const BenchAnswers& what) {
  std::string text(bench_text());
  if (!what.file.empty()) {
    KVICK_TRY(text, base::read_text(what.file));
  }
  if (text.empty()) return fail("{} is empty; give a file with text", what.file);
  const std::vector<engine::Token> tokens = engine.tokenizer().encode(text, true, false);
  Prompts prompts;
  const size_t size = std::min<size_t>(what.prompt, tokens.size());
  for (size_t at = 0; at + size <= tokens.size() && prompts.size() < kPieces * what.parallel;
       at += size)
    prompts.emplace_back(tokens.begin() + static_cast<ptrdiff_t>(at),
                         tokens.begin() + static_cast<ptrdiff_t>(at + size));
  // A short text gives fewer prompts than sequences run at once, so its first prompt is repeated.
  while (prompts.size() < what.parallel) prompts.push_back(prompts.front());
  // Prompts run in waves of what.parallel. A last wave with fewer would measure something else.
  prompts.resize(prompts.size() / what.parallel * what.parallel);
  return prompts;
}

// One of the two configurations compared, with its timed rounds.
struct Way {
  std::string name, spec_text = "none";
  engine::SpecOptions spec = {};
  std::vector<engine::AdapterUse> adapters = {};
  std::vector<double> tok_s = {};
  engine::Answered last = {};
};

nlohmann::ordered_json json_of(const Way& way, const Way& plain) {
  return {{"spec", way.spec_text},
          {"adapters", way.adapters.size()},
          {"tok_s", engine::median(way.tok_s)},
          {"spread", engine::spread(way.tok_s)},
          {"tokens_per_pass", way.last.tokens_per_pass()},
          {"drafted", way.last.drafted},
          {"accepted", way.last.accepted},
          {"speedup", engine::median(way.tok_s) / engine::median(plain.tok_s)}};
}

std::string text_of(const Way& way, const Way& plain) {
  const engine::Answered& last = way.last;
  const double accepted = 100.0 * static_cast<double>(last.accepted) /
                          static_cast<double>(std::max<uint64_t>(1, last.drafted));
  return fmt::format("{:<24}{:>10.1f}{:>8.1f} %{:>10.2f}{:>10}{:>10.1f} %{:>9.2f}\n", way.name,
                     engine::median(way.tok_s), 100 * engine::spread(way.tok_s),
                     last.tokens_per_pass(), last.drafted, accepted,
                     engine::median(way.tok_s) / engine::median(plain.tok_s));
}

// Runs each configuration in turn, what.repeats timed rounds after a warm-up round that is not
// timed.
base::Status<> measure(engine::Engine& engine, const Prompts& prompts,
                       engine::AnswerOptions options, const BenchAnswers& what,
                       std::span<Way> ways) {
  for (uint32_t round = 0; round <= what.repeats; ++round)
    for (Way& way : ways) {
      options.spec = way.spec;
      options.adapters = way.adapters;
      KVICK_TRY(way.last, engine::answer_prompts(engine, prompts, options));
      if (round > 0) way.tok_s.push_back(static_cast<double>(way.last.tokens) / way.last.seconds);
    }
  return base::Done{};
}

// Returns the plain configuration, then the one with the draft tokens or adapters asked for.
Result<std::vector<Way>> ways_of(const engine::Engine& engine, const BenchAnswers& what) {
  std::vector<Way> ways = {{.name = "none"}};
  if (!what.spec.empty()) {
    KVICK_TRY(const engine::SpecOptions spec, spec_of(what.spec));
    ways.push_back({.name = what.spec, .spec_text = what.spec, .spec = spec});
    return ways;
  }
  ways.push_back(
      {.name = fmt::format("{} adapter{}", what.lora.size(), what.lora.size() > 1 ? "s" : "")});
  for (const auto& adapter : engine.adapters())
    ways.back().adapters.push_back({.adapter = adapter, .scale = adapter->scale});
  return ways;
}

Result<std::unique_ptr<engine::Engine>> open_with(const BenchAnswers& what, EngineFlags flags,
                                                  const Common& common) {
  for (const std::string& text : what.lora) {
    KVICK_TRY(engine::AdapterOptions adapter, engine::parse_adapter(text, false));
    // Requests select adapters by name. There are no requests here, and one adapter may be given
    // twice.
    adapter.name = fmt::format("{}", flags.adapters.size());
    flags.adapters.push_back(std::move(adapter));
  }
  return open_engine(flags, common);
}

// The numbers of one run, for the text and for the JSON.
struct AnswersReport {
  engine::Engine& engine;
  const engine::KvOptions& kv;  // resolved
  const BenchAnswers& what;
  const Prompts& prompts;
  const std::vector<Way>& ways;

  bool same() const { return ways[0].last.answers == ways[1].last.answers; }
};

nlohmann::ordered_json json_of(const AnswersReport& report) {
  const BenchAnswers& what = report.what;
  return {
      {"model", report.engine.model().config().name},
      {"kv", {{"strategy", kv::spec_text(report.kv.spec)}}},
      {"kv_type", engine::kv_type_text(report.kv)},
      {"threads", report.engine.pool().size()},
      {"isa", base::isa_name(report.engine.kernels().isa)},
      {"text", what.file},
      {"prompts", report.prompts.size()},
      {"prompt", report.prompts.front().size()},
      {"decode", what.decode},
      {"parallel", what.parallel},
      {"repeats", what.repeats},
      {"ways", {json_of(report.ways[0], report.ways[0]), json_of(report.ways[1], report.ways[0])}},
      {"same_answers", report.same()}};
}

void print_text(const AnswersReport& report) {
  engine::Engine& engine = report.engine;
  const Prompts& prompts = report.prompts;
  const BenchAnswers& what = report.what;
  fmt::print("{}, {} threads, {}, cache {} {}\n", printable(engine.model().config().name),
             engine.pool().size(), base::isa_name(engine.kernels().isa),
             kv::spec_text(report.kv.spec), engine::kv_type_text(report.kv));
  fmt::print("{} prompt{} of {} tokens of {}, {} at once, greedy answers of {}\n\n", prompts.size(),
             prompts.size() == 1 ? "" : "s", prompts.front().size(),
             what.file.empty() ? "the bundled text" : what.file, what.parallel, what.decode);
  fmt::print("{:<24}{:>10}{:>10}{:>10}{:>10}{:>12}{:>9}\n", what.spec.empty() ? "lora" : "spec",
             "tokens/s", "spread", "per pass", "drafts", "accepted", "speed");
  for (const Way& way : report.ways) fmt::print("{}", text_of(way, report.ways[0]));
  if (what.lora.empty())
    fmt::print("\nthe answers are {}\n", report.same() ? "the same" : "NOT the same");
}

}  // namespace

Result<int> bench_answers(const BenchAnswers& what, const EngineFlags& flags,
                          const Common& common) {
  engine::AnswerOptions options;
  options.tokens = what.decode;
  options.parallel = what.parallel;
  options.ignore_end = true;
  KVICK_TRY(options.kv, kv_options(flags));
  if (!what.spec.empty()) KVICK_TRY_VOID(spec_of(what.spec));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_with(what, flags, common));
  options.kv = engine->resolved(std::move(options.kv));
  const uint32_t context = engine->most_tokens(options.kv);
  if (uint64_t{what.prompt} + what.decode > context)
    return fail("a prompt of {} tokens and an answer of {} do not fit a context of {}", what.prompt,
                what.decode, context);
  KVICK_TRY(const Prompts prompts, prompts_of(*engine, what));
  KVICK_TRY(std::vector<Way> ways, ways_of(*engine, what));
  Progress progress = stderr_progress(common.quiet);
  progress.start("measuring", Unit::kRuns, (what.repeats + 1) * 2 * prompts.size());
  uint64_t done = 0;
  options.progress = [&](uint64_t) { progress.update(++done); };
  KVICK_TRY_VOID(measure(*engine, prompts, options, what, ways));
  progress.finish();
  const AnswersReport report = {
      .engine = *engine, .kv = options.kv, .what = what, .prompts = prompts, .ways = ways};
  common.json ? print_json(json_of(report)) : print_text(report);
  return 0;
}

}  // namespace kvick::cli
