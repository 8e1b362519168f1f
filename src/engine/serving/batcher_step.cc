// Batcher: one step of all the sequences of a store.

#include <algorithm>
#include <limits>

#include "engine/answer/finite.h"
#include "engine/serving/batcher.h"
#include "engine/speculation/verify.h"

namespace kvick::engine {
namespace {

// Rows of a step for a prompt whose tokens are reported: each needs logits of its own, which are
// 200 KB for SmolLM2.
constexpr uint32_t kMostReports = 64;

// What a call throws; null: nothing.
template <typename Call>
std::exception_ptr thrown_by(const Call& call) noexcept {
  try {
    call();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// What is thrown while a group is served ends it, once the step is over.
template <typename Call>
void attempt(Group& group, const Call& call) noexcept {
  if (std::exception_ptr failure = thrown_by(call)) group.failure = std::move(failure);
}

// Windows keep all rows of a step until it ends, so that a shorter piece of a prompt takes less.
bool gives_rows_back(const kv::Store& store) {
  const std::vector<kv::Shape>& groups = store.info().groups;
  return std::any_of(groups.begin(), groups.end(),
                     [](const kv::Shape& shape) { return shape.window > 0; });
}

}  // namespace

// An answer's next token, of every lane; or, if the lanes are not as far yet, a piece of what they
// lack. Beams are compared with each other, so they go together: none is finished before all lack
// one token only.
void Batcher::plan_answers(Group& group, std::vector<Work>& work) const {
  const bool together = std::all_of(group.lanes.begin(), group.lanes.end(),
                                    [](const Lane& lane) { return lane.pending() == 1; });
  for (size_t i = 0; i < group.lanes.size(); ++i)
    if (group.lanes[i].pending() == 1 && (together || !group.beam_search()))
      work.push_back({&group, i, 1, true});
}

void Batcher::plan_prompt(Group& group, uint32_t& left, std::vector<Work>& work) const {
  for (size_t i = 0; i < group.lanes.size() && left > 0; ++i) {
    Lane& lane = group.lanes[i];
    const bool trunk = group.trunk > 0;
    if (trunk && i > 0) return;
    uint32_t pending = trunk ? group.trunk - lane.committed : lane.pending();
    if (!trunk && lane.pending() == 1 && lane.length() > group.outcome.prompt_tokens) continue;
    // What is compared with the other beams comes last.
    if (group.beam_search() && group.lanes.size() > 1 && !trunk) --pending;
    uint32_t n = std::min({pending, left, group.reports_prompt() ? kMostReports : UINT32_MAX});
    // Tokens of one role at a time.
    if (lane.committed < group.prompt_rows()) n = std::min(n, group.prompt_rows() - lane.committed);
    if (n == 0) continue;
    left -= n;
    work.push_back({&group, i, n, lane.committed + n == lane.length()});
  }
}

// Prompt tokens, and those of preempted answers, that wait to be computed.
uint64_t Batcher::waiting_tokens() const {
  uint64_t tokens = 0;
  for (const auto* groups : {&waiting_, &running_})
    for (const auto& group : *groups) {
      if (group->lanes.empty()) continue;
      const uint32_t pending = group->lanes.front().pending();
      if (pending > 1) tokens += pending;
    }
  return tokens;
}

// most_prompt: tokens of prompts, at most.
std::vector<Batcher::Work> Batcher::plan(const Shelf& shelf, uint32_t most_prompt) const {
  std::vector<Work> work;
  for (const auto& group : running_)
    if (group->shelf == &shelf && group->trunk == 0 && group->loading == nullptr &&
        group->longest() > group->outcome.prompt_tokens)
      plan_answers(*group, work);
  uint32_t left = std::min(
      most_prompt, pace_.prompt_tokens(static_cast<uint32_t>(work.size()), waiting_tokens()));
  for (const auto& group : running_)
    if (group->shelf == &shelf && group->loading == nullptr) plan_prompt(*group, left, work);
  return work;
}

bool Batcher::run(Shelf& shelf) {
  // Guesses are the first that go without when memory runs out. And a job is too large only if it
  // failed after the others were seen to have nothing.
  bool alone = false;
  uint32_t most_prompt = UINT32_MAX;
  for (bool guesses = true;; guesses = false) {
    end_lost(lost_groups(shelf));
    std::vector<Work> work = plan(shelf, most_prompt);
    if (work.empty()) return false;
    if (guesses) guess(work);
    const auto lost = compute_all(shelf, work);
    if (lost.ok()) {
      settle(work, *lost);
      end_lost(*lost);
      return true;
    }
    const bool guessed = std::any_of(work.begin(), work.end(),
                                     [](const Work& one) { return one.guesses.size() > 0; });
    if (guessed || !lost_groups(shelf).empty()) continue;
    if (wait_for_others(*running_.front(), lost.error().needed_bytes)) return false;
    if (make_way(shelf, lost.error())) continue;
    if (work.front().tokens > 1 && gives_rows_back(*shelf.store)) {
      most_prompt = work.front().tokens / 2;
      continue;
    }
    if (std::exchange(alone, true) || options_.memory == nullptr)
      end(*work.front().group, Refusal{Refusal::Why::kTooLarge, lost.error().what, ""});
  }
}

// Jobs of which rows are lost, by a slower tier or a commit without memory.
std::vector<Group*> Batcher::lost_groups(const Shelf& shelf) const {
  std::vector<Group*> lost;
  for (const auto& group : running_) {
    const bool any = group->shelf == &shelf &&
                     std::any_of(group->lanes.begin(), group->lanes.end(), [&](const Lane& lane) {
                       return lane.seq && !kv::failure(*shelf.store, *lane.seq).empty();
                     });
    if (any) lost.push_back(group.get());
  }
  return lost;
}

void Batcher::end_lost(std::span<Group* const> lost) {
  for (Group* const group : lost) {
    std::string why;
    for (const Lane& lane : group->lanes)
      if (lane.seq && why.empty()) why = kv::failure(*group->shelf->store, *lane.seq);
    const bool by_tier = group->shelf->traits.tiered;
    end(*group, Refusal{by_tier ? Refusal::Why::kLost : Refusal::Why::kFailed,
                        "the request's rows are lost: " + why, ""});
  }
}

// The groups whose rows were lost meanwhile, of which nothing is kept.
base::Result<std::vector<Group*>, kv::Shortage> Batcher::compute_all(Shelf& shelf,
                                                                     std::vector<Work>& work) {
  std::vector<FreshTokens> fresh;
  std::vector<model::Slot> slots;
  for (const Work& one : work) one.group->in_step = true;
  fresh.reserve(work.size());
  for (const Work& one : work) {
    const Lane& lane = one.group->lanes[one.lane];
    const model::Role role = one.group->role_of(lane);
    model::Slot slot = {.seq = *lane.seq,
                        .past = lane.committed,
                        .tokens = std::span(lane.tokens).subspan(lane.committed, one.tokens),
                        .parents = {},
                        .role = role,
                        .reusable = role == shelf.prompt_role};
    if (one.guesses.size() > 0) {
      const FreshTokens& rows = fresh.emplace_back(slot.tokens.back(), one.guesses.tree);
      slot.tokens = rows.tokens;
      slot.parents = rows.parents;
    }
    slots.push_back(slot);
  }
  const double began = options_.clock();
  KVICK_TRY(model::Executor::Step step, shelf.change([&](kv::Store& store) {
    return executor_.begin(store, {.slots = slots});
  }));
  step.forward(wanted_by(work));
  verify_guesses(work);
  kv::Kept kept = step.all();
  for (size_t i = 0; i < work.size(); ++i)
    if (work[i].guesses.size() > 0) kept.rows[i] = work[i].kept;
  std::vector<Group*> lost = lost_groups(shelf);
  shelf.change([&](kv::Store&) { step.commit(kept); });
  count_step(work, options_.clock() - began);
  return lost;
}

// Of all tokens of a step, those whose logits are wanted; notes where each one's will be.
std::vector<uint32_t> Batcher::wanted_by(std::span<Work> work) {
  std::vector<uint32_t> wanted;
  uint32_t end = 0;
  size_t copies = 0;
  for (Work& one : work) {
    const Lane& lane = one.group->lanes[one.lane];
    if (one.lane == 0 && one.group->reports_prompt()) {
      const uint32_t known = static_cast<uint32_t>(one.group->prompt_reports.size());
      const uint32_t last =
          std::min(lane.committed + one.tokens, one.group->outcome.prompt_tokens - 1);
      for (uint32_t row = std::max(known, 1u) - 1; row < last; ++row, ++one.reports)
        wanted.push_back(end + row - lane.committed);
    }
    end += one.tokens;
    one.first_logits = wanted.size();
    for (uint32_t i = 0; one.logits && i <= one.guesses.size(); ++i) wanted.push_back(end - 1 + i);
    end += one.guesses.size();
    if (one.logits && one.group->trunk > 0) copies += one.group->lanes.size() - 1;
  }
  // Lanes that will be forked from one get copies of its logits: the samplers write over theirs.
  fork_logits_.resize(copies * engine_.model().config().vocab);
  return wanted;
}

void Batcher::count_step(std::span<const Work> work, double seconds) {
  uint32_t answers = 0, prompts = 0, guesses = 0, came = 0;
  StepShape shape;
  PlainStep plain;  // without the guesses that are made by gain
  for (const Work& one : work) {
    const Lane& lane = one.group->lanes[one.lane];
    (one.tokens == 1 && one.logits ? answers : prompts) += one.tokens;
    guesses += one.guesses.size();
    shape.add(one.tokens + one.guesses.size(), lane.committed);
    const bool bets = one.guesses.size() > 0 && lane.speculator->options().gain;
    const auto of_it = static_cast<uint32_t>(std::max<size_t>(1, one.kept.size()));
    came += of_it;
    plain.tokens += bets ? 1 : of_it;
    plain.shape.add(bets ? 1 : one.tokens + one.guesses.size(), lane.committed);
  }
  pace_.observe(answers + guesses, prompts, seconds);
  if (prompts == 0) speculation_.observe(shape, plain, came, seconds);
  ++counts_.steps;
  counts_.step_tokens += answers + prompts;
}

// The other lanes begin where the first one is. False: there is no room for them, and the job
// waits until there is.
bool Batcher::fork_lanes(Group& group) {
  Lane& first = group.lanes.front();
  for (Lane& lane : std::span(group.lanes).subspan(1)) {
    auto seq = group.shelf->change([&](kv::Store& store) { return store.fork(*first.seq); });
    if (!seq.ok()) {
      preempt_or_end(group, seq.error());
      return false;
    }
    lane.seq = *seq;
    lane.committed = first.committed;
    lane.filed = first.filed;
  }
  group.trunk = 0;
  return true;
}

// lost: groups of which nothing was committed, and which will end.
void Batcher::settle(std::span<Work> work, std::span<Group* const> lost) {
  const auto ends = [&](const Work& one) {
    return one.group->failure || std::find(lost.begin(), lost.end(), one.group) != lost.end();
  };
  const size_t vocab = engine_.model().config().vocab;
  std::vector<Draw> draws;
  size_t copies = 0;  // rows of fork_logits_ that are taken
  for (const Work& one : work) {
    if (one.failure) one.group->failure = one.failure;
    if (!ends(one)) attempt(*one.group, [&] { take_rows(one); });
  }
  for (Work& one : work) {
    Group& group = *one.group;
    const bool forks = group.forks_now();
    const size_t others = group.lanes.size() - 1, first_copy = copies;
    if (one.logits && group.trunk > 0) copies += others;
    if (ends(one)) continue;
    bool goes_on = true;
    if (forks) attempt(group, [&] { goes_on = fork_lanes(group); });
    if (!goes_on || group.failure || !one.logits) continue;
    const auto logits = executor_.logits().subspan(one.first_logits * vocab, vocab);
    draws.push_back({&group, one.lane, logits, std::move(one.written)});
    if (!forks) continue;
    for (size_t i = 0; i < others; ++i) {
      const auto copy = std::span(fork_logits_).subspan((first_copy + i) * vocab, vocab);
      std::ranges::copy(logits, copy.begin());
      draws.push_back({&group, i + 1, copy, {}});
    }
  }
  // Lanes of one group come together: some may have been planned as answers, others as prompts.
  std::ranges::stable_sort(draws, [](const Draw& a, const Draw& b) {
    return a.group->rank().ahead_of(b.group->rank());
  });
  draw(draws);
  fail_marked();
}

// What the step has committed of a lane.
void Batcher::take_rows(const Work& one) {
  report_prompt(one);
  Lane& lane = one.group->lanes[one.lane];
  lane.committed += one.guesses.size() > 0 ? static_cast<uint32_t>(one.kept.size()) : one.tokens;
  const uint32_t filed = std::min(lane.committed, one.group->prompt_rows());
  files_.keep(*one.group->shelf, *lane.seq, std::span(lane.tokens).first(filed), lane.filed);
}

// What the rows say of the prompt's tokens; all at once when all have come, to every choice.
void Batcher::report_prompt(const Work& work) {
  Group& group = *work.group;
  if (work.lane != 0 || !group.reports_prompt()) return;
  std::vector<TokenReport>& reports = group.prompt_reports;
  const std::vector<Token>& prompt = group.job.prompt;
  if (reports.empty())
    reports.push_back({.chosen = {prompt[0], std::numeric_limits<float>::quiet_NaN()}, .top = {}});
  const size_t vocab = engine_.model().config().vocab;
  const size_t pieces = engine_.tokenizer().vocabulary().pieces.size();
  for (size_t row = work.first_logits - work.reports; row < work.first_logits; ++row) {
    const auto logits = executor_.logits().subspan(row * vocab, pieces);
    require_finite(logits);
    reports.push_back(report_of(logits, prompt[reports.size()], *group.job.logprobs));
  }
  if (group.reports_prompt() || !group.job.on_piece) return;
  for (uint32_t choice = 0; choice < group.job.choices; ++choice)
    group.job.on_piece(
        {.choice = choice, .text = {}, .tokens = reports, .of_prompt = true, .finish = {}});
}

void Batcher::draw(std::vector<Draw>& draws) {
  const auto choose = [](Draw& one) {
    Lane& lane = one.group->lanes[one.lane];
    const uint32_t most = one.group->shelf->most_tokens;
    one.written.push_back(lane.writer->next(one.logits, lane.committed < most));
    if (one.written.back().token) lane.tokens.push_back(*one.written.back().token);
  };
  engine_.pool().parallel_for(draws.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (Draw& one : std::span(draws).subspan(begin, end - begin))
      if (!one.group->beam_search() && one.written.empty())
        one.failure = thrown_by([&] { choose(one); });
  });
  const double now = options_.clock();
  for (size_t i = 0; i < draws.size();) {
    Group& group = *draws[i].group;
    size_t end = i;
    while (end < draws.size() && draws[end].group == &group) ++end;
    (group.last_token ? counts_.between_tokens : counts_.first_token)
        .add(now - group.last_token.value_or(group.arrived));
    group.last_token = now;
    group.state = JobState::kAnswer;
    const auto own = std::span(draws).subspan(i, end - i);
    for (const Draw& one : own)
      if (one.failure) group.failure = one.failure;
    i = end;
    if (group.failure) continue;
    try {  // not attempt: the group may have ended
      group.beam_search() ? search(group, own) : take(group, own);
    } catch (...) {
      // A search that broke off leaves sequences that no lane has.
      group.shelf->broken = group.shelf->broken || group.beam_search();
      fail(group, std::current_exception());
    }
  }
}

void Batcher::take(Group& group, std::span<Draw> draws) {
  std::vector<size_t> ended;
  for (Draw& one : draws) {
    Lane& lane = group.lanes[one.lane];
    for (Written& written : one.written) {
      group.outcome.generated_tokens += written.token ? 1 : 0;
      counts_.generated_tokens += written.token ? 1 : 0;
      Piece piece = {.choice = lane.choice,
                     .text = std::move(written.text),
                     .token = written.token,
                     .tokens = {},
                     .finish = written.finish};
      if (written.report) piece.tokens.push_back(std::move(*written.report));
      if (group.job.on_piece) group.job.on_piece(std::move(piece));
      if (written.finish) ended.push_back(one.lane);
    }
    if (!ended.empty() && ended.back() == one.lane && lane.speculator != nullptr &&
        group.job.salt.empty())
      speculation_.add_text(lane.tokens);
  }
  for (auto at = ended.rbegin(); at != ended.rend(); ++at) {
    close_lane(group, group.lanes[*at]);
    group.lanes.erase(group.lanes.begin() + static_cast<ptrdiff_t>(*at));
  }
  if (!group.lanes.empty()) return;
  ++counts_.finished;
  end(group, {});
}

}  // namespace kvick::engine
