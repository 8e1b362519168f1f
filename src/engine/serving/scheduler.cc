#include "engine/serving/scheduler.h"

#include <algorithm>
#include <fmt/format.h>

#include "engine/prefix/prompt_cuts.h"
#include "kv/registry/policies.h"

namespace kvick::engine {
namespace {

constexpr uint32_t kMostChoices = 128;
// A job is admitted once the prompts ahead of it take fewer than this many steps. Admitted earlier,
// it would wait just as long, but the time would not show as time in the queue (ADR 64).
constexpr uint32_t kStepsAhead = 2;

// Returns the rows of a running job. Rows of the prefix that its answers share count once.
uint32_t rows_of(const RunningJob& running) {
  const uint32_t common = running.answers.size() > 1 ? running.common_tokens() : 0;
  uint32_t rows = 0, shared = 0;
  for (const AnswerSequence& answer : running.answers) {
    const uint32_t of_common = std::min(answer.committed, common);
    rows += answer.committed - of_common;
    shared = std::max(shared, of_common);
  }
  return rows + shared;
}

// Returns the bytes of these rows. Under a window each answer has rows of its own.
uint64_t bytes_of(const RunningJob& running, uint32_t rows) {
  uint64_t bytes = 0;
  for (const kv::Shape& shape : running.kind->store->info().groups) {
    if (shape.window == 0)
      bytes += rows * shape.token_bytes();
    else
      for (const AnswerSequence& answer : running.answers)
        bytes += shape.used_bytes(answer.committed);
  }
  return bytes;
}

std::optional<Refusal> refuses_pooling(const Job& job, const model::Model& model) {
  const auto invalid = [](const char* message) {
    return Refusal{Refusal::Why::kInvalid, message, ""};
  };
  if (!model.has_states())
    return invalid(
        "embeddings need the model's last layer, which another process of --pipeline has; start "
        "with --ranks alone, or as one process");
  if (*job.pooling == Pooling::kRank && !model.scores_pairs())
    return invalid(
        "the model's file asks for the scores of a rank head and has none; start with --pooling "
        "last, mean or cls");
  if (job.choices != 1 || job.beams > 0 || job.handover)
    return invalid(
        "an embedding is one vector per text: leave n, beams and kv_transfer_params out");
  return std::nullopt;
}

}  // namespace

base::Result<std::unique_ptr<Scheduler>> Scheduler::make(Engine& engine,
                                                         const SchedulerOptions& options) {
  const auto budget = options.memory != nullptr ? options.memory->budget()
                                                : std::make_shared<kv::Budget>(options.kv_bytes);
  KVICK_TRY(StoreSet stores, StoreSet::make(engine, options.kv, budget));
  if (options.reuse.shift)
    if (const std::string why = why_not_moved(engine, *stores.standard().store); !why.empty())
      return base::fail("--reuse shift: {}; leave it out", why);
  std::unique_ptr<Scheduler> scheduler(new Scheduler(engine, options, std::move(stores)));
  KVICK_TRY_VOID(scheduler->speculation_.prepare(options.spec, options.draft, budget));
  return scheduler;
}

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options, StoreSet stores)
    : engine_(engine),
      options_(options),
      stores_(std::move(stores)),
      tiers_(engine, {options.files, options.store}, options.file_seconds, options.reuse),
      texts_(options.reuse.least, options.reuse.most_known),
      executor_(engine.make_executor()),
      pace_(options.step_seconds, options.most_step_tokens),
      noted_(options.crash_notes),
      speculation_(engine, options.clock),
      turn_token_(turn_token_of(engine)) {}

Scheduler::~Scheduler() {
  for (auto& running : running_) drop_rows(*running);
  if (options_.memory != nullptr) options_.memory->publish(options_.member, {});
}

// Returns the job's order; higher goes first. It does not change while the job waits, since waiting
// raises all jobs by the same amount.
double Scheduler::order_of(const Job& job, double arrived) const {
  return job.priority - arrived / options_.seconds_per_priority;
}

// Returns a job's cache options. A job chooses how its rows are kept, not how many: the context and
// whatever the job leaves open come from the service.
KvOptions Scheduler::kind_of(const Job& job) const {
  KvOptions kind = job.kv.value_or(options_.kv);
  if (kind.max_tokens == 0) kind.max_tokens = options_.kv.max_tokens;
  const kv::Spec& select = options_.kv.select;
  if (kind.select.name.empty()) kind.select = select;
  // A policy's file of learnt weights comes from the service: a request cannot name files.
  if (kind.select.name == select.name && select.options.contains("file"))
    kind.select.options.try_emplace("file", select.options.at("file"));
  // A policy that forgets rows has a store of its own, so the service's strategy does not apply.
  if (kind.spec.name.empty() && !kv::forgets(kind.select)) {
    kind.spec = options_.kv.spec;
    kind.tier = options_.kv.tier;
  }
  if (!kind.names_types()) kind.take_types(options_.kv);
  if (!kind.state_type) kind.state_type = options_.kv.state_type;
  return kind;
}

std::optional<Refusal> Scheduler::refuses(const Job& job) const {
  using Why = Refusal::Why;
  const auto invalid = [](std::string field, std::string message) {
    return Refusal{Why::kInvalid, std::move(message), std::move(field)};
  };
  // Counts the vocabulary's tokens, not the rows of the output layer, which may be padded: a writer
  // sees only logits of tokens.
  const auto vocab = static_cast<uint32_t>(engine_.tokenizer().vocabulary().pieces.size());
  if (const auto good = check(form_of(job), vocab); !good.ok())
    return invalid("sampling", good.error().message);
  if (job.prompt.empty())
    return invalid("prompt", "the prompt is empty: there is nothing to go on from");
  for (const Token token : job.prompt)
    if (token < 0 || static_cast<uint32_t>(token) >= vocab)
      return invalid("prompt", fmt::format("the prompt has token {}, but the vocabulary ends at {}",
                                           token, vocab - 1));
  if (job.choices < 1 || std::max(job.choices, job.beams) > kMostChoices)
    return invalid("n", fmt::format("from 1 to {} answers can be asked for, not {}", kMostChoices,
                                    std::max(job.choices, job.beams)));
  if (job.beams > 0 && job.beams < job.choices)
    return invalid(
        "n", fmt::format("{} beams cannot give {} answers; ask for fewer answers or more beams",
                         job.beams, job.choices));
  if (job.beams > 0 && (job.constraint != nullptr || job.logprobs))
    return invalid("beams",
                   "beam search cannot be combined with a constrained answer (schema, grammar, "
                   "choice or tool call) or with logprobs; leave them out");
  if (job.beams > 0 && (job.min_tokens > 0 || !job.stop_tokens.empty() || job.with_stop))
    return invalid("beams",
                   "beam search takes neither a least length nor stop tokens, and cannot include "
                   "the stop text; leave them out");
  if (job.spec && job.beams > 0)
    return invalid("spec", "beam search cannot use draft tokens; leave spec out");
  if (job.spec)
    if (const auto good = speculation_.check(*job.spec); !good.ok())
      return invalid("spec", good.error().message);
  if (job.pooling) {
    if (auto refusal = refuses_pooling(job, engine_.model())) return refusal;
  } else if (const auto writes = engine_.check_writes(); !writes.ok()) {
    return invalid("prompt", writes.error().message);
  }
  if (job.kv)
    if (const auto good = engine_.check_kv(kind_of(job)); !good.ok())
      return invalid("kv", good.error().message);
  const StoreKind& standard = stores_.standard();
  const uint32_t most = job.kv ? engine_.most_tokens(kind_of(job)) : standard.most_tokens;
  if (job.prompt.size() > most)
    return Refusal{Why::kTooLong,
                   fmt::format("the prompt has {} tokens, but the context holds {}; shorten it",
                               job.prompt.size(), most),
                   "prompt"};
  if (job.kv) return std::nullopt;
  const uint64_t bytes =
      stores_.needed_bytes(standard, static_cast<uint32_t>(job.prompt.size()), job.choices);
  if (bytes <= options_.kv_bytes) return std::nullopt;
  return Refusal{Why::kTooLarge,
                 fmt::format("{} bytes of cache are needed for the prompt alone, but there are {}; "
                             "shorten it or ask for fewer answers",
                             bytes, options_.kv_bytes),
                 "prompt"};
}

// Admits jobs in their order. A job never overtakes one that is only too large for the memory that
// is free now, or the large one could wait forever. A job that waits for rows of another's prompt
// does not hold up those behind it.
void Scheduler::admit() noexcept {
  uint32_t held = 0;
  std::optional<uint64_t> growth;  // as fits() takes it; admitting a job changes no other's
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    RunningJob& first = **next;
    if (first.kind->broken) return;  // the next step renews it
    try {
      if (tokens_ahead_of(first) >= uint64_t{kStepsAhead} * options_.most_step_tokens) return;
      if (waits_for_a_prompt(first)) {
        if (++held == options_.max_sequences) return;
        ++next;
        continue;
      }
      if (!fits(first, growth)) return;
      if (options_.memory != nullptr) options_.memory->begin_to_run(options_.member);
      move_job(first, waiting_, running_);
      open(first);
      if (first.loading == nullptr && first.forks_now() && !fork_answers(first)) return;
      if (growth) *growth += growth_of(first);
    } catch (...) {
      growth.reset();
      fail(first, std::current_exception());
    }
    // The calls above may have changed the list.
    next = waiting_.begin();
    held = 0;
  }
}

void Scheduler::open(RunningJob& running) {
  const double now = options_.clock();
  if (!running.outcome.times.started) {
    counts_.queue.add(now - running.arrived);
    running.outcome.times.started = now;
  }
  AnswerSequence& first = running.answers.front();
  running.trunk = running.answers.size() > 1 ? running.common_tokens() : 0;
  const uint32_t known = reusable_tokens(running);
  open_answer(running, first);
  running.state =
      first.length() > running.outcome.prompt_tokens ? JobState::kAnswer : JobState::kPrompt;
  start_loading(running, known);
  if (running.loading == nullptr) count_opened(running);
}

// Opens the answer's sequence, which continues from the rows that the store has cached.
void Scheduler::open_answer(RunningJob& running, AnswerSequence& answer) {
  const PrefixOwner owner = owner_of(running.job);
  const kv::Opened opened = running.kind->change([&](kv::Store& store) {
    return store.open(std::span<const Token>(answer.tokens).first(reusable_tokens(running)),
                      {.salt = salt_of(owner), .priority = running.job.priority});
  });
  answer.seq = opened.seq;
  answer.committed = opened.cached;
  running.seen = std::max(opened.cached, opened.seen);
  answer.filed = tiers_.begin(*running.kind, owner);
}

// Called when the first answer has all rows that need not be computed: counts them, and plans
// checkpoints and moved rows.
void Scheduler::count_opened(RunningJob& running) {
  const uint32_t had = running.answers.front().committed;
  running.cut_prompt(turn_token_, engine_.tokenizer());
  if (owner_of(running.job).arithmetic.empty())
    tiers_.hold(*running.kind, *running.answers.front().seq, had);
  if (!running.admitted) {
    running.outcome.cached_tokens = had;
    counts_.prompt_tokens += running.outcome.prompt_tokens;
    counts_.cached_tokens += had;
    counts_.read_again_tokens += running.seen - std::min(running.seen, had);
    if (owner_of(running.job).handed_over)
      ++(had == reusable_tokens(running) ? counts_.handovers.taken : counts_.handovers.computed);
  } else if (running.lost_tokens > had) {
    const uint32_t again = running.lost_tokens - had;
    counts_.recomputed_tokens += again;
    counts_.preemption_seconds += again * pace_.seconds_per_prompt_token();
  }
  running.admitted = true;
  plan_moves(running);
}

void Scheduler::close_answer(const RunningJob& running, AnswerSequence& answer) noexcept {
  const std::optional<kv::SeqId> seq = std::exchange(answer.seq, std::nullopt);
  answer.committed = 0;
  if (!seq || running.kind->broken) return;
  try {
    running.kind->change([&](kv::Store& store) { store.close(*seq); });
  } catch (...) {  // change() has marked the store as broken; it is replaced with all its sequences
  }
}

// Returns what preempting the job would free, and the cost of bringing it back.
Candidate Scheduler::candidate_of(const RunningJob& running) const {
  const uint32_t rows = rows_of(running);
  const double per_token = pace_.seconds_per_prompt_token();
  Candidate candidate = {.priority = running.job.priority,
                         .freed_bytes = bytes_of(running, rows),
                         .recompute_seconds = rows * per_token,
                         .swap_seconds = {}};
  const AnswerSequence& first = running.answers.front();
  const auto known =
      std::span(first.tokens).first(std::min(first.committed, running.prompt_rows()));
  const auto cost = tiers_.cost(*running.kind, owner_of(running.job), known);
  if (cost.tokens > 0)
    candidate.swap_seconds = cost.seconds + (rows - std::min(rows, cost.tokens)) * per_token;
  return candidate;
}

void Scheduler::preempt(RunningJob& running) {
  const Candidate candidate = candidate_of(running);
  evict(running);
  if (!candidate.swap_seconds || *candidate.swap_seconds >= candidate.recompute_seconds) return;
  running.state = JobState::kSwapped;
  ++counts_.swaps;
  --counts_.recomputations;
}

// Drops the job's rows and moves it back to the queue; it computes them again later.
void Scheduler::evict(RunningJob& running) noexcept {
  running.lost_tokens = rows_of(running);
  drop_rows(running);
  running.trunk = 0;
  running.state = JobState::kEvicted;
  ++running.outcome.times.preemptions;
  ++counts_.recomputations;
  move_job(running, running_, waiting_);
}

// Frees memory for a step that found none. Returns false if nothing is left to free, so that the
// only running job cannot continue.
bool Scheduler::make_way(const StoreKind& kind, const kv::Shortage& shortage) {
  if (stores_.shrink(shortage.needed_bytes, &kind) > 0) return true;
  if (speculation_.shrink(shortage.needed_bytes) > 0 || speculation_.give_up() > 0) return true;
  if (running_.size() < 2) return false;
  // Never preempts the first job in order, whatever that costs, so that one job always finishes.
  std::vector<RunningJob*> others;
  for (auto running = std::next(running_.begin()); running != running_.end(); ++running)
    others.push_back(running->get());
  preempt(victim(others));
  return true;
}

RunningJob& Scheduler::victim(std::span<RunningJob* const> jobs) const {
  std::vector<Candidate> candidates;
  for (const RunningJob* running : jobs) candidates.push_back(candidate_of(*running));
  // If no job has rows to free, takes the last one: the next plan of the step leaves it out.
  return *jobs[victim_of(candidates).value_or(candidates.size() - 1)];
}

bool Scheduler::step() noexcept {
  begin_step();
  return finish_step();
}

void Scheduler::begin_step() noexcept {
  tell_ends();
  renew_stores();
  try {
    give_to_others();
  } catch (...) {  // the other instance asks again
    report(std::current_exception());
  }
  wanted_ = {};
  admit();
}

bool Scheduler::finish_step() noexcept {
  bool worked = take_loaded();
  for (StoreKind& kind : stores_.kinds()) worked = run_or_fail(kind) || worked;
  if (!worked)
    for (const auto& running : running_)
      if (running->loading != nullptr) {
        PrefixLoader::wait(*running->loading);
        break;
      }
  try {
    tell_others();
  } catch (...) {  // other instances are told after the next step
    report(std::current_exception());
  }
  const bool more = !waiting_.empty() || !running_.empty() || !ended_.empty();
  // No job advanced, so all of them wait for memory from other instances: at most 2 ms.
  if (options_.memory != nullptr && more && !worked) options_.memory->wait(0.002);
  return worked || more;
}

}  // namespace kvick::engine
