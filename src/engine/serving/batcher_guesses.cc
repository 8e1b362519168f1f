// Batcher: guesses at answers, as rows of the step that takes them on.

#include <algorithm>

#include "engine/serving/batcher.h"
#include "engine/speculation/verify.h"

namespace kvick::engine {

// Texts of a salt of their own are nobody else's: not even how long their answers take may tell.
std::unique_ptr<Speculator> Batcher::speculator_of(const Job& job) {
  if (job.beams > 0) return nullptr;
  return speculation_.begin(job.spec.value_or(options_.spec), job.salt.empty());
}

// Every answer's guesses; those that are made by gain are weighed against each other, since all are
// rows of one forward. Steps that read prompts have none of these: nothing is known of their cost.
void Batcher::guess(std::span<Work> work) {
  bool prompts = false;
  double past = 0;
  for (const Work& one : work) {
    prompts = prompts || one.tokens != 1 || !one.logits;
    past += one.group->lanes[one.lane].committed;
  }
  const auto lanes = static_cast<uint32_t>(work.size());
  const PlainStep alone = plain_step(lanes, past / lanes);
  PlainStep plain = alone;  // with the guesses that are made whatever they gain
  const double stake = speculation_.account.tokens();
  const bool bets = !prompts && may_guess(alone, speculation_.cost, stake);
  std::vector<double> chances;
  for (Work& one : work) {
    const Speculator* speculator = one.group->lanes[one.lane].speculator.get();
    if (speculator == nullptr) continue;
    const bool by_gain = speculator->options().gain;
    if (by_gain && !bets) continue;
    guess(one, alone);
    if (by_gain)
      chances.insert(chances.end(), one.guesses.chances.begin(), one.guesses.chances.end());
    else
      plain.shape = plain.with(one.guesses.size());
  }
  const double least = least_chance(chances, plain, speculation_.cost, stake);
  for (Work& one : work)
    if (one.guesses.size() > 0 && one.group->lanes[one.lane].speculator->options().gain)
      one.guesses.keep(least, one.guesses.size());
}

void Batcher::guess(Work& one, const PlainStep& plain) {
  const Group& group = *one.group;
  Lane& lane = one.group->lanes[one.lane];
  if (one.tokens != 1 || !one.logits || group.trunk > 0 || lane.length() <= 1) return;
  if (group.role_of(lane) != model::Role::kAnswer) return;
  kv::Store& store = *group.shelf->store;
  uint32_t room = draft_room(store, *lane.seq, lane.speculator->options().grow);
  if (group.job.max_tokens != 0)
    room = std::min(room, group.job.max_tokens - lane.writer->tokens() - 1);
  const DraftAsk ask = {.text = lane.tokens,
                        .most = room,
                        .depth = room,
                        .store = &store,
                        .seq = *lane.seq,
                        .sampler = &lane.writer->sampler(),
                        .form = lane.writer->constraint()};
  try {
    one.guesses = lane.speculator->guess(ask, plain);
  } catch (...) {  // the answer goes on without guesses
    const bool by_store = !lane.speculator->options().skip.empty();
    lane.speculator.reset();
    one.guesses = {};
    speculation_.distrust();
    if (!by_store) return report(std::current_exception());
    one.group->shelf->broken = true;
    throw;
  }
}

void Batcher::verify_guesses(std::span<Work> work) {
  if (std::none_of(work.begin(), work.end(),
                   [](const Work& one) { return one.guesses.size() > 0; }))
    return;
  const size_t vocab = engine_.model().config().vocab;
  engine_.pool().parallel_for(work.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (Work& one : work.subspan(begin, end - begin)) {
      if (one.guesses.size() == 0) continue;
      Lane& lane = one.group->lanes[one.lane];
      const auto logits =
          executor_.logits().subspan(one.first_logits * vocab, (one.guesses.size() + 1) * vocab);
      try {
        one.kept = verify(*lane.writer, one.guesses.tree, logits,
                          {.committed = lane.committed, .most = one.group->shelf->most_tokens},
                          [&](Written&& written) {
                            if (written.token) lane.tokens.push_back(*written.token);
                            one.written.push_back(std::move(written));
                            return true;
                          });
      } catch (...) {
        one.failure = std::current_exception();  // no row is kept
      }
    }
  });
  for (const Work& one : work) {
    if (one.guesses.size() == 0 || one.failure) continue;
    const auto accepted = static_cast<uint32_t>(one.kept.size() - 1);
    one.group->outcome.drafted += one.guesses.size();
    one.group->outcome.accepted += accepted;
    counts_.drafted += one.guesses.size();
    counts_.accepted += accepted;
  }
}

}  // namespace kvick::engine
