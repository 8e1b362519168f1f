#include "engine/eval/speed.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/session/session.h"

namespace kvick::engine {
namespace {

using base::fail;
using Seqs = std::vector<kv::SeqId>;

// Counts tokens for the progress bar.
class Count {
 public:
  Count(std::span<const Case> cases, const SpeedOptions& options) : options_(options) {
    for (const Case& c : cases)
      total_ += uint64_t{c.depth} * c.parallel + (options.repeats + 1) * c.all_tokens();
  }
  void add(uint64_t tokens) {
    // The total does not count depths that had to be filled again.
    done_ = std::min(done_ + tokens, total_);
    if (options_.progress) options_.progress(done_, total_);
  }

 private:
  const SpeedOptions& options_;
  uint64_t done_ = 0, total_ = 0;
};

// The rounds of one case on its store.
class Rounds {
 public:
  Rounds(Engine& engine, kv::Store& store, model::Executor& executor, const Case& what,
         const SpeedOptions& options, Count& count)
      : engine_(engine),
        store_(store),
        executor_(executor),
        what_(what),
        clock_(options.clock),
        prompt_role_(engine.prompt_role(options.kv)),
        count_(count),
        random_(1) {}

  base::Result<Measurement> run(uint32_t repeats) {
    Measurement result = {.what = what_, .tok_s = {}, .usage = {}};
    for (uint32_t i = 0; i <= repeats; ++i) {
      KVICK_TRY_VOID(fill());
      const Seqs seqs = i == repeats ? std::exchange(filled_, {}) : forks();
      const double start = clock_();
      KVICK_TRY_VOID(what_.phase == Phase::kPrefill ? read(seqs[0], what_.tokens) : decode(seqs));
      const double seconds = clock_() - start;
      if (i > 0) result.tok_s.push_back(static_cast<double>(what_.all_tokens()) / seconds);
      if (i == repeats) result.usage = store_.usage();
      for (const kv::SeqId seq : seqs) store_.close(seq);
      count_.add(what_.all_tokens());
    }
    result.usage.copied_bytes -= forked_bytes_;
    return result;
  }

 private:
  // Fills sequences to the case's depth, unless they are left from the round before.
  base::Status<> fill() {
    while (filled_.size() < what_.parallel) {
      filled_.push_back(store_.open({}).seq);
      KVICK_TRY_VOID(read(filled_.back(), what_.depth));
      count_.add(what_.depth);
    }
    return base::Done{};
  }

  // Returns sequences for one round: forks of the filled ones, or these themselves if forks do not
  // fit or would save nothing.
  Seqs forks() {
    if (what_.depth == 0) return std::exchange(filled_, {});
    const uint64_t copied = store_.usage().copied_bytes;
    Seqs seqs;
    for (const kv::SeqId seq : filled_) {
      auto fork = store_.fork(seq);
      if (fork.ok()) {
        seqs.push_back(*fork);
        continue;
      }
      for (const kv::SeqId made : seqs) store_.close(made);
      seqs = std::exchange(filled_, {});
      break;
    }
    forked_bytes_ += store_.usage().copied_bytes - copied;
    return seqs;
  }

  Token token() { return static_cast<Token>(random_() % engine_.model().config().vocab); }

  base::Status<> read(kv::SeqId seq, uint32_t count) {
    uint32_t past = store_.length(seq);
    while (count > 0) {
      std::vector<Token> tokens(std::min(count, Session::kPrefillChunk));
      for (Token& t : tokens) t = token();
      count -= static_cast<uint32_t>(tokens.size());
      const model::Slot slot = {.seq = seq,
                                .past = past,
                                .tokens = tokens,
                                .parents = {},
                                .role = prompt_role_,
                                .prompt = true,
                                .reusable = false};
      const auto last = static_cast<uint32_t>(tokens.size() - 1);
      KVICK_TRY_VOID(forward({.slots = {&slot, 1}}, {&last, count == 0 ? 1U : 0U}));
      past += static_cast<uint32_t>(tokens.size());
    }
    return base::Done{};
  }

  base::Status<> decode(const Seqs& seqs) {
    std::vector<Token> tokens(seqs.size());
    std::vector<model::Slot> slots(seqs.size());
    std::vector<uint32_t> wanted(seqs.size());
    for (uint32_t step = 0; step < what_.tokens; ++step) {
      for (uint32_t i = 0; i < seqs.size(); ++i) {
        tokens[i] = token();
        slots[i] = {.seq = seqs[i],
                    .past = what_.depth + step,
                    .tokens = {&tokens[i], 1},
                    .parents = {},
                    .reusable = false};
        wanted[i] = i;
      }
      KVICK_TRY_VOID(forward({.slots = slots}, wanted));
    }
    return base::Done{};
  }

  base::Status<> forward(const model::Batch& batch, std::span<const uint32_t> wanted) {
    const auto done = executor_.advance(store_, batch, wanted);
    if (!done.ok()) return fail("no room in the cache: {}", done.error().what);
    return base::Done{};
  }

  Engine& engine_;
  kv::Store& store_;
  model::Executor& executor_;
  const Case& what_;
  base::Clock clock_;
  model::Role prompt_role_;
  Count& count_;
  std::mt19937 random_;
  Seqs filled_;
  uint64_t forked_bytes_ = 0;
};

base::Status<> check(const Engine& engine, std::span<const Case> cases,
                     const SpeedOptions& options) {
  const uint32_t context = engine.most_tokens(options.kv);
  if (cases.empty()) return fail("nothing to measure: both prompt and decode are 0 tokens");
  if (options.repeats == 0) return fail("at least one repeat is needed");
  for (const Case& c : cases) {
    if (c.parallel == 0 || c.tokens == 0)
      return fail("{} of {} tokens in {} sequences: at least one of each is needed",
                  phase_name(c.phase), c.tokens, c.parallel);
    if (uint64_t{c.depth} + c.tokens > context)
      return fail("{} of {} tokens at depth {} does not fit a context of {}", phase_name(c.phase),
                  c.tokens, c.depth, context);
  }
  return base::Done{};
}

}  // namespace

std::string_view phase_name(Phase phase) { return phase == Phase::kPrefill ? "prefill" : "decode"; }

std::vector<Case> cases_of(const Sweep& sweep) {
  std::vector<Case> cases;
  for (const uint32_t tokens : sweep.prompts)
    for (const uint32_t depth : sweep.depths)
      if (tokens > 0) cases.push_back({Phase::kPrefill, tokens, depth, 1});
  for (const uint32_t tokens : sweep.decodes)
    for (const uint32_t parallel : sweep.parallels)
      for (const uint32_t depth : sweep.depths)
        if (tokens > 0) cases.push_back({Phase::kDecode, tokens, depth, parallel});
  return cases;
}

base::Result<std::vector<Measurement>> measure_speed(Engine& engine, std::span<const Case> cases,
                                                     const SpeedOptions& options) {
  KVICK_TRY_VOID(check(engine, cases, options));
  model::Executor executor = engine.make_executor();
  Count count(cases, options);
  std::vector<Measurement> results;
  for (const Case& what : cases) {
    KVICK_TRY(const std::unique_ptr<kv::Store> store, engine.make_store(options.kv));
    Rounds rounds(engine, *store, executor, what, options, count);
    KVICK_TRY(Measurement result, rounds.run(options.repeats));
    results.push_back(std::move(result));
  }
  return results;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double spread(const std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return (*high - *low) / median(values);
}

}  // namespace kvick::engine
