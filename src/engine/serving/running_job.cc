#include "engine/serving/running_job.h"

#include <algorithm>

#include "engine/prefix/prompt_cuts.h"

namespace kvick::engine {
namespace {

// Shared tokens that are worth waiting for. With fewer, most steps read both prompts at once.
constexpr uint32_t kWorthWaiting = 32;
// Limit on a prompt's checkpoints: at the borders of its messages and where other prompts diverge.
constexpr size_t kMostCuts = 32;

}  // namespace

void RunningJob::cut_prompt(std::optional<Token> turn_token, const text::Tokenizer& tokenizer) {
  const kv::Checkpoints* const checkpoints = kind->store->facets().checkpoints;
  if (checkpoints == nullptr || job.pooling) return;
  cuts = cuts_of(job.prompt, {.cached = answers.front().committed, .seen = seen}, turn_token,
                 tokenizer);
  // The process that takes the prompt over computes the last token again, for its logits.
  const uint32_t last = outcome.prompt_tokens - 1;
  if (job.handover && checkpoints->only_at_end() && last > 0 &&
      (cuts.empty() || cuts.back() < last))
    cuts.push_back(last);
}

uint32_t RunningJob::until_cut(const AnswerSequence& answer) const {
  const auto next = std::upper_bound(cuts.begin(), cuts.end(), answer.committed);
  if (next == cuts.end() || !kind->store->facets().checkpoints->only_at_end()) return UINT32_MAX;
  return *next - answer.committed;
}

uint32_t RunningJob::until_move(const AnswerSequence& answer) const {
  if (moves.empty() || &answer != &answers.front()) return UINT32_MAX;
  return moves.front().at - answer.committed;
}

bool RunningJob::will_share(std::span<const Token> prompt) {
  const AnswerSequence& first = answers.front();
  if (!reads_prompt(first)) return false;
  const auto own = std::span(first.tokens).first(std::min(outcome.prompt_tokens, prompt_rows()));
  const auto parting = std::ranges::mismatch(own, prompt).in1;
  const auto common = static_cast<uint32_t>(parting - own.begin());
  const uint32_t block = kind->block_tokens;
  if (kind->store->facets().checkpoints == nullptr)
    return common >= first.committed + std::max(kWorthWaiting, block);
  const auto after = std::ranges::upper_bound(cuts, common);
  auto last = after == cuts.begin() ? cuts.end() : std::prev(after);
  // Adds none after the last one, where files have the state for the next turn.
  const uint32_t before = last == cuts.end() ? outcome.cached_tokens : *last;
  if (after != cuts.end() && common >= std::max(before, first.committed) + kLeastCutTokens &&
      cuts.size() < kMostCuts)
    last = cuts.insert(after, common);
  if (last == cuts.end()) return false;
  const uint32_t known = last == cuts.begin() ? outcome.cached_tokens : *std::prev(last);
  // The rows before a checkpoint are found once the block that it lies in is full.
  const uint32_t full = (*last + block - 1) / block * block;
  return first.committed < full && *last >= known + kWorthWaiting;
}

void RunningJob::keep_checkpoints(const AnswerSequence& answer, uint32_t before) const {
  for (const uint32_t cut : cuts)
    if (cut > before && cut <= answer.committed)
      kind->change([&](kv::Store& store) { store.facets().checkpoints->keep(*answer.seq, cut); });
}

bool RunningJob::files_state(const AnswerSequence& answer) const {
  if (cuts.empty()) return false;
  return answer.committed == cuts.front() || answer.committed == cuts.back() ||
         (job.handover && answer.committed + 1 == outcome.prompt_tokens);
}

uint32_t RunningJob::longest() const {
  uint32_t most = 0;
  for (const AnswerSequence& answer : answers) most = std::max(most, answer.length());
  return most;
}

uint32_t RunningJob::common_tokens() const {
  const std::vector<Token>& first = answers.front().tokens;
  auto common = static_cast<uint32_t>(first.size());
  uint32_t shortest = common;
  bool equal = true;
  for (const AnswerSequence& answer : answers) {
    const auto differ =
        std::mismatch(first.begin(), first.end(), answer.tokens.begin(), answer.tokens.end());
    common = std::min(common, static_cast<uint32_t>(differ.first - first.begin()));
    shortest = std::min(shortest, answer.length());
    equal = equal && answer.tokens == first;
  }
  return equal ? common : std::min(common, shortest - 1);
}

AnswerForm form_of(const Job& job) {
  return {.sampling = job.sampling,
          .most = job.max_tokens != 0 ? job.max_tokens : UINT32_MAX,
          .least = job.min_tokens,
          .stop = job.stop,
          .stop_tokens = job.stop_tokens,
          .with_stop = job.with_stop,
          .special_text = job.special_text,
          .continues = job.continues,
          .ignore_end = job.ignore_end,
          .stop_loops = job.stop_loops,
          .logprobs = job.logprobs,
          .constraint = job.constraint};
}

RunningJobs job_list_of(JobId id, Job job) {
  RunningJobs one;
  one.push_back(std::make_unique<RunningJob>());
  RunningJob& running = *one.front();
  running.id = id;
  running.outcome.prompt_tokens = static_cast<uint32_t>(job.prompt.size());
  running.job = std::move(job);
  return one;
}

void move_job(const RunningJob& running, RunningJobs& from, RunningJobs& to) noexcept {
  const auto at = std::find_if(from.begin(), from.end(),
                               [&](const auto& one) { return one.get() == &running; });
  const auto before = std::find_if(
      to.begin(), to.end(), [&](const auto& one) { return running.rank().ahead_of(one->rank()); });
  to.splice(before, from, at);
}

}  // namespace kvick::engine
