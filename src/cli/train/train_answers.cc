// kvick train answers: writes a model's answers to prompts, with the probability of each token, as
// training data for a draft model.

#include "cli/train/train_answers.h"

#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/engine_options.h"
#include "cli/options/print_json.h"
#include "cli/terminal/progress.h"
#include "cli/train/mistakes.h"
#include "lab/data/prompts.h"
#include "train/from_model/ask.h"

namespace kvick::cli {
namespace {

using Prompts = std::vector<std::vector<engine::Token>>;

// Of a line of plain text, the first kGivenTokens tokens are used. Shorter lines than kLeastTokens
// are skipped.
constexpr size_t kGivenTokens = 24, kLeastTokens = 8;

struct AnswersFlags {
  EngineFlags engine;
  std::vector<std::string> files;
  std::string output;
  train::AskOptions options;
  uint32_t prompts = UINT32_MAX, longest = 512;
};

// Returns the beginning of every line that is long enough.
base::Result<Prompts> beginnings_of(std::ifstream& text, const engine::Engine& engine,
                                    const AnswersFlags& flags) {
  Prompts out;
  for (std::string line; std::getline(text, line) && out.size() < flags.prompts;) {
    std::vector<engine::Token> tokens = engine.tokenizer().encode(line, true, false);
    if (tokens.size() < kLeastTokens) continue;
    tokens.resize(std::min({tokens.size(), kGivenTokens, size_t{flags.longest}}));
    out.push_back(std::move(tokens));
  }
  return out;
}

base::Result<Prompts> prompts_of(const std::string& path, const engine::Engine& engine,
                                 const AnswersFlags& flags) {
  std::ifstream in(path);
  if (!in) return base::fail("cannot read {}", path);
  if (in.peek() != '{') return beginnings_of(in, engine, flags);
  KVICK_TRY(lab::PromptSet set,
            lab::read_prompts(path, engine, flags.prompts, flags.options.tokens));
  Prompts out;
  for (auto& [category, prompts] : set.categories)
    for (auto& prompt : prompts)
      if (prompt.size() <= flags.longest) out.push_back(std::move(prompt));
  return out;
}

void print_result(const AnswersFlags& flags, const train::AnswerData& data, const Common& common) {
  if (common.json)
    print_json({{"output", flags.output},
                {"sequences", data.ends.size()},
                {"tokens", data.tokens.size()},
                {"top", data.top}});
  else
    fmt::print("{}: {} sequences of {} tokens in all, with the {} likeliest in each place\n",
               flags.output, data.ends.size(), data.tokens.size(), data.top);
}

base::Result<int> write_answers(AnswersFlags& flags, const Common& common) {
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  Prompts prompts;
  for (const std::string& path : flags.files) {
    KVICK_TRY(Prompts some, prompts_of(path, *engine, flags));
    std::move(some.begin(), some.end(), std::back_inserter(prompts));
  }
  Progress progress = stderr_progress(common.quiet);
  flags.options.progress = [&](uint64_t done) {
    progress.report("asking", Unit::kRuns, done, prompts.size());
  };
  KVICK_TRY(const train::AnswerData data, train::ask(*engine, prompts, flags.options));
  progress.finish();
  train::write_answers(flags.output, data);
  print_result(flags, data, common);
  return 0;
}

}  // namespace

void add_answers(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "answers", "write a model's answers to prompts, from which kvick train draft learns");
  auto flags = std::make_shared<AnswersFlags>();
  train::AskOptions& options = flags->options;
  add_model_flags(command, flags->engine);
  command
      .add_option("-f,--file", flags->files,
                  "prompts of Spec-Bench, GSM8K or HumanEval, or texts: the model continues the "
                  "beginning of each line")
      .takes(ValueKind::kFile)
      .required();
  command.add_option("-o,--output", flags->output, "the file to write")
      .takes(ValueKind::kFile)
      .required();
  command.add_option("--prompts", flags->prompts,
                     "only the first N of each category or text (default: all)");
  command.add_option("--longest", flags->longest, "leave longer prompts out")
      .shows_default()
      .in_range(1, 1 << 20);
  command.add_option("-n,--tokens", options.tokens, "most tokens of an answer")
      .shows_default()
      .in_range(1, 1 << 20);
  command.add_option("-b,--batch", options.parallel, "prompts that are answered at once")
      .shows_default()
      .in_range(1, 4096);
  command
      .add_option("--top", options.top,
                  "likeliest tokens at each position whose probabilities are kept")
      .shows_default();
  command
      .add_option("--temp", options.sampling.temperature,
                  "temperature of sampling; 0: the likeliest token")
      .shows_default();
  command.add_option("--seed", options.sampling.seed, "seed of sampling").shows_default();
  command.runs(
      [&common, flags] { return mistakes_of([&] { return write_answers(*flags, common); }); });
}

}  // namespace kvick::cli
