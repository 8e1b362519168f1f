#include "lab/measure/replay.h"

#include <optional>
#include <random>

namespace kvick::lab {
namespace {

std::vector<engine::Token> random_tokens(uint32_t count, uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<engine::Token> tokens(count);
  for (engine::Token& token : tokens) token = static_cast<engine::Token>(random() % vocab);
  return tokens;
}

// Sums over the steps so far.
struct Means {
  double sequences = 0, held = 0, wasted = 0;
  uint64_t steps = 0, peak = 0;

  void add(const kv::Usage& usage) {
    const uint64_t running = usage.allocated_bytes - usage.cached_bytes;
    sequences += usage.sequences;
    held += static_cast<double>(running);
    wasted += static_cast<double>(usage.wasted_bytes);
    peak = std::max(peak, running);
    ++steps;
  }
};

}  // namespace

base::Result<Replayed> replay(engine::Engine& engine, const engine::SchedulerOptions& options,
                              std::span<const ReplayJob> jobs) {
  KVICK_TRY(const std::unique_ptr<engine::Scheduler> scheduler,
            engine::Scheduler::make(engine, options));
  Replayed result;
  std::optional<std::string> refused;
  const auto known = static_cast<uint32_t>(engine.tokenizer().vocabulary().pieces.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    engine::Job job;
    job.prompt = random_tokens(jobs[i].prompt, known, static_cast<uint32_t>(i));
    job.max_tokens = jobs[i].answer;
    job.choices = jobs[i].choices;
    job.beams = jobs[i].beams;
    job.ignore_end = true;
    // Sampling makes the choices differ, so they share only their prompt.
    job.sampling.temperature = jobs[i].choices > 1 ? 1 : 0;
    job.on_end = [&](const engine::JobOutcome& outcome) {
      result.answer_tokens += outcome.generated_tokens;
      if (outcome.error) refused = outcome.error->message;
    };
    if (const auto refusal = scheduler->refuses(job))
      return base::fail("a prompt of {} tokens: {}", jobs[i].prompt, refusal->message);
    scheduler->add(engine::JobId{i}, std::move(job));
  }
  Means means;
  const double began = options.clock();
  while (scheduler->step()) means.add(scheduler->metrics().kv);
  result.seconds = options.clock() - began;
  if (refused) return base::fail("a job could not go on: {}", *refused);
  if (means.held > 0) result.waste = means.wasted / means.held;
  if (means.steps > 0) result.sequences = means.sequences / static_cast<double>(means.steps);
  result.peak_bytes = means.peak;
  result.metrics = scheduler->metrics();
  return result;
}

}  // namespace kvick::lab
