// Batcher: beam search.

#include <algorithm>

#include "engine/answer/finite.h"
#include "engine/serving/batcher.h"

namespace kvick::engine {
namespace {

void keep_best(std::vector<Hypothesis>& all, size_t count) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  if (all.size() > count) all.resize(count);
}

std::vector<Token> answer_of(const Group& group, const Lane& lane) {
  return {lane.tokens.begin() + group.outcome.prompt_tokens, lane.tokens.end()};
}

}  // namespace

// One token more for the best `beams` answers. Twice as many continuations are looked at, since up
// to half of them end an answer (Freitag and Al-Onaizan 2017).
void Batcher::search(Group& group, std::span<const Draw> draws) {
  const uint32_t width = group.job.beams;
  const size_t pieces = engine_.tokenizer().vocabulary().pieces.size();
  std::vector<Beam> beams;
  for (const Draw& draw : draws) {
    require_finite(draw.logits.first(pieces));
    beams.push_back({.score = group.lanes[draw.lane].score,
                     .next = likeliest(draw.logits.first(pieces), size_t{2} * width)});
  }
  const uint32_t length = group.longest() - group.outcome.prompt_tokens + 1;
  const auto normalised = [&](double score) {
    return length_normalised(score, length, group.job.length_penalty);
  };
  std::vector<Continuation> best = best_continuations(beams, size_t{2} * width), live;
  for (size_t i = 0; i < best.size() && live.size() < width; ++i) {
    const Continuation& one = best[i];
    if (group.job.ignore_end || !engine_.tokenizer().ends_generation(one.token))
      live.push_back(one);
    else if (i < width)
      group.hypotheses.push_back(
          {answer_of(group, group.lanes[one.beam]), normalised(one.score), true});
  }
  keep_best(group.hypotheses, width);
  counts_.generated_tokens += live.size();
  if (!go_on_with(group, live)) return;
  if (group.lanes.empty()) return end_search(group);
  const bool full = group.longest() > group.shelf->most_tokens ||
                    (group.job.max_tokens != 0 && length >= group.job.max_tokens);
  const bool decided = group.hypotheses.size() >= width &&
                       group.hypotheses.back().score >= normalised(group.lanes.front().score);
  if (!full && !decided) return;
  for (const Lane& lane : group.lanes)
    group.hypotheses.push_back({answer_of(group, lane), normalised(lane.score), false});
  keep_best(group.hypotheses, width);
  end_search(group);
}

// Lanes of the continuations, each with the rows of the one that it goes on. False: there was no
// room for a fork; then the job waits or has ended.
bool Batcher::go_on_with(Group& group, std::span<const Continuation> live) {
  std::vector<Lane> before = std::exchange(group.lanes, {});
  std::vector<bool> used(before.size());
  std::optional<kv::Shortage> shortage;
  for (uint32_t i = 0; i < live.size(); ++i) {
    const Lane& from = before[live[i].beam];
    Lane lane = {.choice = i, .seq = {}, .tokens = from.tokens, .writer = nullptr};
    lane.tokens.push_back(live[i].token);
    lane.score = live[i].score;
    group.lanes.push_back(std::move(lane));
  }
  // Forks first: what is forked must not have been given to a lane that is closed on failure.
  for (uint32_t i = 0; i < live.size() && !shortage; ++i) {
    Lane& from = before[live[i].beam];
    if (!used[live[i].beam]) {
      used[live[i].beam] = true;
      group.lanes[i].seq = from.seq;
    } else if (auto seq = group.shelf->store->fork(*from.seq); seq.ok()) {
      group.lanes[i].seq = *seq;
    } else {
      shortage = seq.error();
    }
    group.lanes[i].committed = from.committed;
    group.lanes[i].filed = from.filed;
  }
  for (size_t i = 0; i < before.size(); ++i)
    if (!used[i]) close_lane(group, before[i]);
  if (!shortage) return true;
  preempt_or_end(group, *shortage);
  return false;
}

void Batcher::end_search(Group& group) {
  const size_t count = std::min<size_t>(group.job.choices, group.hypotheses.size());
  for (uint32_t i = 0; i < count; ++i) {
    const Hypothesis& best = group.hypotheses[i];
    AnswerForm form;
    form.stop = group.job.stop;
    form.continues = group.job.continues;
    form.ignore_end = true;
    AnswerWriter writer(engine_.tokenizer(), engine_.kernels(), {}, std::move(form));
    Piece piece = {.choice = i, .text = {}, .token = {}, .tokens = {}, .finish = {}};
    for (size_t t = 0; t < best.tokens.size() && !piece.finish; ++t) {
      const Written written = writer.take(best.tokens[t], t + 1 < best.tokens.size());
      piece.text += written.text;
      piece.finish = written.finish;
    }
    if (best.ended && piece.finish != Finish::kStop) piece.finish = Finish::kEnd;
    group.outcome.generated_tokens += static_cast<uint32_t>(best.tokens.size());
    if (group.job.on_piece) group.job.on_piece(std::move(piece));
  }
  ++counts_.finished;
  end(group, {});
}

}  // namespace kvick::engine
