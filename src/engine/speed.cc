#include "engine/speed.h"

#include <algorithm>
#include <random>

#include "engine/session.h"

namespace kvick::engine {
namespace {

using base::fail;

class Round {
 public:
  Round(Engine& engine, kv::Store& store, model::Workspace& workspace, const SpeedOptions& options)
      : engine_(engine), store_(store), workspace_(workspace), options_(options), random_(1) {
    for (uint32_t i = 0; i < options.parallel; ++i) seqs_.push_back(store.open({}).seq);
    logits_.resize(size_t{options.parallel} * engine.model().config().vocab);
  }
  ~Round() {
    for (const kv::SeqId seq : seqs_) store_.close(seq);
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  base::Status<> fill() {
    for (const kv::SeqId seq : seqs_) KVICK_TRY_VOID(read(seq, options_.depth));
    return base::Done{};
  }

  // A prompt behind the first sequence's rows, forgotten again afterwards.
  base::Result<double> prefill(uint32_t tokens) {
    const kv::SeqId seq = seqs_[0];
    const double start = options_.clock();
    KVICK_TRY_VOID(read(seq, tokens));
    const double seconds = options_.clock() - start;
    // Sequences cannot be cut back, so the timed one is replaced.
    store_.close(seq);
    seqs_[0] = store_.open({}).seq;
    KVICK_TRY_VOID(read(seqs_[0], options_.depth));
    return tokens / seconds;
  }

  base::Result<double> decode(uint32_t tokens) {
    const double start = options_.clock();
    for (uint32_t i = 0; i < tokens; ++i) KVICK_TRY_VOID(step());
    return double(tokens) * options_.parallel / (options_.clock() - start);
  }

 private:
  Token token() { return static_cast<Token>(random_() % engine_.model().config().vocab); }

  base::Status<> read(kv::SeqId seq, uint32_t count) {
    uint32_t past = store_.length(seq);
    while (count > 0) {
      std::vector<Token> tokens(std::min(count, Session::kPrefillChunk));
      for (Token& t : tokens) t = token();
      count -= static_cast<uint32_t>(tokens.size());
      const model::Slot slot = {.seq = seq, .past = past, .tokens = tokens, .parents = {}};
      const auto last = static_cast<uint32_t>(tokens.size() - 1);
      KVICK_TRY_VOID(forward({.slots = {&slot, 1}}, {&last, count == 0 ? 1U : 0U}));
      past += static_cast<uint32_t>(tokens.size());
    }
    return base::Done{};
  }

  base::Status<> step() {
    std::vector<Token> tokens(seqs_.size());
    std::vector<model::Slot> slots;
    std::vector<uint32_t> wanted;
    for (uint32_t i = 0; i < seqs_.size(); ++i) {
      tokens[i] = token();
      slots.push_back({.seq = seqs_[i],
                       .past = store_.length(seqs_[i]),
                       .tokens = {&tokens[i], 1},
                       .parents = {}});
      wanted.push_back(i);
    }
    return forward({.slots = slots}, wanted);
  }

  base::Status<> forward(const model::Batch& batch, std::span<const uint32_t> wanted) {
    const std::vector<kv::Slot> slots = model::kv_slots(batch);
    auto step = store_.begin({.slots = slots});
    if (!step.ok()) return fail("no room in the cache: {}", step.error().what);
    engine_.model().forward(batch, **step, workspace_, wanted, logits_.data());
    (*step)->commit(kv::Kept::all({.slots = slots}));
    return base::Done{};
  }

  Engine& engine_;
  kv::Store& store_;
  model::Workspace& workspace_;
  const SpeedOptions& options_;
  std::mt19937 random_;
  std::vector<kv::SeqId> seqs_;
  std::vector<float> logits_;
};

base::Status<> check(const Engine& engine, const SpeedOptions& options) {
  const uint32_t context =
      options.kv.max_tokens != 0 ? options.kv.max_tokens : engine.model().config().context;
  const uint64_t longest = uint64_t{options.depth} + std::max(options.prompt, options.decode);
  if (longest > context)
    return fail("depth {} and {} tokens do not fit a context of {}", options.depth,
                std::max(options.prompt, options.decode), context);
  if (options.parallel == 0 || options.repeats == 0)
    return fail("at least one sequence and one repeat are needed");
  if (options.prompt == 0 && options.decode == 0)
    return fail("nothing to measure: both prompt and decode are 0 tokens");
  return base::Done{};
}

}  // namespace

base::Result<Speed> measure_speed(Engine& engine, const SpeedOptions& options) {
  KVICK_TRY_VOID(check(engine, options));
  KVICK_TRY(const std::unique_ptr<kv::Store> store, engine.make_store(options.kv));
  model::Workspace workspace(engine.pool(), engine.kernels());
  const uint64_t round_tokens =
      options.prompt + uint64_t{options.parallel} * (uint64_t{options.depth} + options.decode);
  Speed speed;
  for (uint32_t i = 0; i <= options.repeats; ++i) {
    Round round(engine, *store, workspace, options);
    KVICK_TRY_VOID(round.fill());
    if (options.prompt > 0) {
      KVICK_TRY(const double rate, round.prefill(options.prompt));
      if (i > 0) speed.prefill_tok_s.push_back(rate);
    }
    if (options.decode > 0) {
      KVICK_TRY(const double rate, round.decode(options.decode));
      if (i > 0) speed.decode_tok_s.push_back(rate);
    }
    speed.usage = store->usage();
    if (options.progress)
      options.progress((i + 1) * round_tokens, (options.repeats + 1) * round_tokens);
  }
  return speed;
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
