// Scheduler: reuses rows of earlier prompts for tokens at another position (ReuseOptions::shift,
// ADR 65).

#include <new>

#include "engine/serving/scheduler.h"
#include "kv/strategy/facet_calls.h"
#include "model/attend/moved_rows.h"

namespace kvick::engine {

std::string why_not_moved(const Engine& engine, kv::Store& store) {
  if (engine.model().ranks() != nullptr) return "the model is spread over several processes";
  if (store.facets().rows == nullptr) return "rows of such a cache cannot be taken from it";
  return model::why_not_moved(engine.model().config(), store.info());
}

namespace {

// A sequence over an earlier text, open while its rows are read.
class KnownSequence {
 public:
  KnownSequence(StoreKind& kind, std::span<const Token> text, const kv::Owner& owner)
      : kind_(kind),
        opened_(kind.change([&](kv::Store& store) { return store.open(text, owner); })) {}
  ~KnownSequence() {
    try {
      kind_.change([&](kv::Store& store) { store.close(opened_.seq); });
    } catch (...) {  // change() has marked the store as broken; it is replaced
    }
  }
  KnownSequence(const KnownSequence&) = delete;
  KnownSequence& operator=(const KnownSequence&) = delete;

  kv::SeqId seq() const { return opened_.seq; }
  uint32_t cached() const { return opened_.cached; }

 private:
  StoreKind& kind_;
  kv::Opened opened_;
};

// Returns a copy of the rows of a run that the store still has, moved to their new place. Empty if
// it has none, or if there is no memory for the copy. Reading changes nothing, so a failure here
// leaves the store as it is.
std::vector<std::byte> moved_rows(Engine& engine, StoreKind& kind, const KnownRun& run,
                                  const kv::Owner& owner) {
  const KnownSequence from(kind, std::span<const Token>(*run.text).first(run.from + run.count),
                           owner);
  if (from.cached() <= run.from) return {};
  const uint32_t count = from.cached() - run.from;
  kv::Store& store = *kind.store;
  try {
    std::vector<std::byte> rows(count * store.info().token_bytes());
    store.facets().rows->read_rows(from.seq(), run.from, count, rows);
    model::move_rows(engine.model().config(), store.info().groups.front(),
                     {.by = int64_t{run.at} - run.from, .count = count}, rows, engine.kernels(),
                     engine.pool());
    return rows;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace

// Plans which rows of earlier texts the first answer takes, after its cached tokens.
void Scheduler::plan_moves(RunningJob& running) {
  running.moves.clear();
  if (!options_.reuse.shift || running.pool ||
      !why_not_moved(engine_, *running.kind->store).empty())
    return;
  const AnswerSequence& first = running.answers.front();
  const uint32_t known = std::min(reusable_tokens(running), running.outcome.prompt_tokens - 1);
  if (first.committed >= known) return;
  running.moves = texts_.runs(salt_of(owner_of(running.job)), first.tokens, first.committed, known);
  // The first `seam` tokens of each run are computed again, so they are no part of it.
  for (KnownRun& run : running.moves) {
    run.at += options_.reuse.seam;
    run.from += options_.reuse.seam;
    run.count -= options_.reuse.seam;
  }
  take_moves(running);
}

// Takes the runs that begin where the committed tokens of the first answer end.
void Scheduler::take_moves(RunningJob& running) {
  AnswerSequence& first = running.answers.front();
  while (!running.moves.empty() && running.moves.front().at <= first.committed) {
    const KnownRun run = std::move(running.moves.front());
    running.moves.erase(running.moves.begin());
    if (run.at < first.committed) continue;
    const uint32_t moved = move_run(running, run);
    first.committed += moved;
    if (running.lost_tokens > 0) continue;  // counted before the job was preempted
    running.outcome.cached_tokens += moved;
    running.outcome.moved_tokens += moved;
    counts_.cached_tokens += moved;
    counts_.moved_tokens += moved;
  }
}

// Appends the moved rows of a run to the first answer. Returns how many of its tokens have rows
// now: none if the rows have been evicted, or there is no room for them or for their copy.
uint32_t Scheduler::move_run(RunningJob& running, const KnownRun& run) {
  const AnswerSequence& first = running.answers.front();
  StoreKind& kind = *running.kind;
  const kv::Owner owner = {.salt = salt_of(owner_of(running.job)),
                           .priority = running.job.priority};
  const std::vector<std::byte> rows = moved_rows(engine_, kind, run, owner);
  if (rows.empty()) return 0;
  return kind.change([&](kv::Store& store) -> uint32_t {
    const auto count = static_cast<uint32_t>(rows.size() / store.info().token_bytes());
    const auto tokens = std::span(first.tokens).subspan(run.at, count);
    return kv::append_rows(store, *first.seq, tokens, rows).ok() ? count : 0;
  });
}

// Remembers an answer's text as a hint for later prompts; without memory there is no hint. Only of
// the first choice: the dropped beams of a search would soon crowd out all other texts.
void Scheduler::remember(const RunningJob& running, const AnswerSequence& answer) noexcept {
  if (!options_.reuse.shift || !answer.seq || answer.choice != 0 || running.pool) return;
  try {
    const uint32_t known = std::min(answer.committed, running.prompt_rows());
    texts_.add(salt_of(owner_of(running.job)), std::span(answer.tokens).first(known));
  } catch (const std::exception&) {
  }
}

}  // namespace kvick::engine
