#include "cli/bench/bench_spec.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/bench/bench_text.h"
#include "cli/options/spec_flag.h"
#include "cli/terminal/progress.h"
#include "engine/eval/speed.h"

namespace kvick::cli {
namespace {

using base::fail;
using base::Result;
using Prompts = std::vector<std::vector<engine::Token>>;

// Pieces of a longer text that are answered, for each of those at once.
constexpr size_t kPieces = 4;

Result<std::string> read_text(const std::string& path) {
  if (path.empty()) return std::string(bench_text());
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail("cannot read {}", path);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return fail("cannot read {}: it is not a readable file", path);
  return text;
}

// The text's beginning, and as many more pieces of it as there are and are wanted. The bundled text
// and others that are shorter than a prompt are one.
Result<Prompts> prompts_of(const engine::Engine& engine, const BenchSpec& what) {
  KVICK_TRY(const std::string text, read_text(what.file));
  if (text.empty()) return fail("{} has no text to go on from", what.file);
  const std::vector<engine::Token> tokens = engine.tokenizer().encode(text, true, false);
  Prompts prompts;
  const size_t size = std::min<size_t>(what.prompt, tokens.size());
  for (size_t at = 0; at + size <= tokens.size() && prompts.size() < kPieces * what.parallel;
       at += size)
    prompts.emplace_back(tokens.begin() + static_cast<ptrdiff_t>(at),
                         tokens.begin() + static_cast<ptrdiff_t>(at + size));
  // Sequences of their own all the same where several are asked for.
  while (prompts.size() < what.parallel) prompts.push_back(prompts.front());
  return prompts;
}

// Rounds of one way.
struct Way {
  std::string spec;
  std::vector<double> tok_s;
  engine::Answered last;
};

nlohmann::ordered_json json_of(const Way& way, const Way& plain) {
  return {{"spec", way.spec},
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
  return fmt::format("{:<24}{:>10.1f}{:>8.1f} %{:>10.2f}{:>10}{:>10.1f} %{:>9.2f}\n", way.spec,
                     engine::median(way.tok_s), 100 * engine::spread(way.tok_s),
                     last.tokens_per_pass(), last.drafted, accepted,
                     engine::median(way.tok_s) / engine::median(plain.tok_s));
}

// Rounds of both ways in turn, after one that is not timed.
base::Status<> measure(engine::Engine& engine, const Prompts& prompts,
                       engine::AnswerOptions options, const BenchSpec& what, std::span<Way> ways) {
  for (uint32_t round = 0; round <= what.repeats; ++round)
    for (Way& way : ways) {
      KVICK_TRY(options.spec, spec_of(way.spec));
      KVICK_TRY(way.last, engine::answer_prompts(engine, prompts, options));
      if (round > 0) way.tok_s.push_back(static_cast<double>(way.last.tokens) / way.last.seconds);
    }
  return base::Done{};
}

}  // namespace

Result<int> bench_spec(const BenchSpec& what, const EngineFlags& flags, const Common& common) {
  engine::AnswerOptions options;
  options.tokens = what.decode;
  options.parallel = what.parallel;
  options.ignore_end = true;
  KVICK_TRY(options.kv, kv_options(flags));
  KVICK_TRY_VOID(spec_of(what.spec));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags, common));
  options.kv = engine->resolved(std::move(options.kv));
  const uint32_t context = engine->most_tokens(options.kv);
  if (uint64_t{what.prompt} + what.decode > context)
    return fail("a prompt of {} tokens and an answer of {} do not fit a context of {}", what.prompt,
                what.decode, context);
  KVICK_TRY(const Prompts prompts, prompts_of(*engine, what));
  Way ways[] = {{.spec = "none", .tok_s = {}, .last = {}},
                {.spec = what.spec, .tok_s = {}, .last = {}}};
  Progress progress = stderr_progress(common.quiet);
  progress.start("measuring", Unit::kRuns, (what.repeats + 1) * 2 * prompts.size());
  uint64_t done = 0;
  options.progress = [&](uint64_t) { progress.update(++done); };
  KVICK_TRY_VOID(measure(*engine, prompts, options, what, ways));
  progress.finish();
  const bool same = ways[0].last.answers == ways[1].last.answers;
  if (common.json) {
    const nlohmann::ordered_json report = {
        {"model", engine->model().config().name},
        {"kv", {{"strategy", kv::spec_text(options.kv.spec)}}},
        {"kv_type", engine::kv_type_text(options.kv)},
        {"threads", engine->pool().size()},
        {"isa", base::isa_name(engine->kernels().isa)},
        {"text", what.file},
        {"prompts", prompts.size()},
        {"prompt", prompts.front().size()},
        {"decode", what.decode},
        {"parallel", what.parallel},
        {"repeats", what.repeats},
        {"ways", {json_of(ways[0], ways[0]), json_of(ways[1], ways[0])}},
        {"same_answers", same}};
    fmt::print("{}\n",
               report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}, {} threads, {}, cache {} {}\n", engine->model().config().name,
             engine->pool().size(), base::isa_name(engine->kernels().isa),
             kv::spec_text(options.kv.spec), engine::kv_type_text(options.kv));
  fmt::print("{} prompt{} of {} tokens of {}, {} at once, greedy answers of {}\n\n", prompts.size(),
             prompts.size() == 1 ? "" : "s", prompts.front().size(),
             what.file.empty() ? "the bundled text" : what.file, what.parallel, what.decode);
  fmt::print("{:<24}{:>10}{:>10}{:>10}{:>10}{:>12}{:>9}\n", "spec", "tokens/s", "spread",
             "per pass", "drafts", "came true", "speed");
  for (const Way& way : ways) fmt::print("{}", text_of(way, ways[0]));
  fmt::print("\nthe answers are {}\n", same ? "the same" : "NOT the same");
  return 0;
}

}  // namespace kvick::cli
