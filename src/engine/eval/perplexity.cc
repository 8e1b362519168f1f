#include "engine/eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/answer/finite.h"
#include "kv/registry/policies.h"

namespace kvick::engine {
namespace {

using base::fail;
using base::Result;

// Tokens of one window in one forward. Fewer than in prefill, since the logits of each are kept:
// 200 KB a token with a vocabulary of 50,000.
constexpr uint32_t kChunk = 128;
// Windows that are read side by side if what a token sees depends on how its text was cut into
// steps (a policy chooses rows; rows of the step itself have not aged yet; states of bf16 are
// rounded once per step). They then advance one token a step, as in decoding, and the weights are
// read once for all of them.
constexpr uint32_t kMostLanes = 16;

double log_sum_exp(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

size_t likeliest(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

using Windows = std::span<const std::span<const Token>>;

// One model with its cache, and the logits of the tokens that it read last.
class Reader {
 public:
  // tells: the store gets to know the tokens; for kvzip, which refuses other texts than its own.
  Reader(Engine& engine, std::unique_ptr<kv::Store> store, model::Role role, bool tells)
      : store_(std::move(store)), executor_(engine.make_executor()), role_(role), tells_(tells) {}

  // Starts `lanes` windows with empty caches.
  void restart(size_t lanes) {
    for (const kv::SeqId seq : lanes_) store_->close(seq);
    lanes_.clear();
    while (lanes_.size() < lanes) lanes_.push_back(store_->open({}).seq);
    past_ = 0;
  }

  // Reads tokens [begin, begin + n) of every window; computes logits only if `want`.
  base::Status<> read(Windows windows, size_t begin, size_t n, bool want) {
    std::vector<model::Slot> slots;
    for (size_t lane = 0; lane < windows.size(); ++lane)
      slots.push_back({.seq = lanes_[lane],
                       .past = past_,
                       .tokens = windows[lane].subspan(begin, n),
                       .parents = {},
                       .role = role_,
                       .reusable = tells_});
    const uint64_t read_before = store_->usage().read_bytes;
    std::vector<uint32_t> wanted(want ? windows.size() * n : 0);
    for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
    const auto done = executor_.advance(*store_, {.slots = slots}, wanted);
    if (!done.ok()) return fail("no room for a window: {}", done.error().what);
    past_ += static_cast<uint32_t>(n);
    read_bytes_ = store_->usage().read_bytes - read_before;
    return base::Done{};
  }

  // Returns the logits of one of the tokens of the last read().
  std::span<const float> logits(size_t token) const {
    const size_t vocab = executor_.model().outputs();
    return executor_.logits().subspan(token * vocab, vocab);
  }
  // Returns the bytes of one window, in all tiers.
  uint64_t held_bytes() const {
    const kv::Usage usage = store_->usage();
    return (usage.allocated_bytes + usage.slow_bytes) / lanes_.size();
  }
  // Returns the bytes that the last step read for one window; 0 without a policy that chooses rows.
  uint64_t read_bytes() const { return read_bytes_ / lanes_.size(); }

 private:
  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  model::Role role_;  // of all tokens
  bool tells_;
  std::vector<kv::SeqId> lanes_;
  uint32_t past_ = 0;
  uint64_t read_bytes_ = 0;
};

struct Sums {
  std::vector<double> windows;  // mean negative log-likelihood of each window
  std::vector<double> divergences;
  // Sum of the negative log-likelihood, of each window that is being read.
  std::vector<double> lanes;
  double nll = 0, reference_nll = 0;
  uint64_t tokens = 0, agreed = 0;
};

struct Lane {
  size_t index = 0;
  size_t first = 0;  // index of the first of its logits
};

// Adds the losses of the chunk that was just read. next: the tokens that it should have predicted;
// the last logits of a window predict none.
void score(const Reader& reader, const Reader* reference, Lane lane, std::span<const Token> next,
           Sums& sums) {
  for (size_t i = 0; i < next.size(); ++i) {
    const std::span<const float> logits = reader.logits(lane.first + i);
    require_finite(logits);
    const double total = log_sum_exp(logits);
    sums.lanes[lane.index] += total - logits[static_cast<size_t>(next[i])];
    if (reference == nullptr) continue;
    const std::span<const float> exact = reference->logits(lane.first + i);
    require_finite(exact);
    const double exact_total = log_sum_exp(exact);
    sums.reference_nll += exact_total - exact[static_cast<size_t>(next[i])];
    double divergence = 0;
    for (size_t v = 0; v < logits.size(); ++v) {
      const double log_p = exact[v] - exact_total;
      divergence += std::exp(log_p) * (log_p - (logits[v] - total));
    }
    sums.divergences.push_back(std::max(divergence, 0.0));
    sums.agreed += likeliest(logits) == likeliest(exact);
  }
}

struct Pace {
  size_t prompt = 0;  // PerplexityOptions::prompt, read kChunk tokens at a time
  size_t chunk = 1;   // tokens per step after the prompt
};

// Reads windows of equal length side by side, some tokens of each at a time.
base::Status<> read_windows(Reader& reader, Reader* reference, Windows windows, Pace pace,
                            Sums& sums) {
  reader.restart(windows.size());
  if (reference != nullptr) reference->restart(windows.size());
  sums.lanes.assign(windows.size(), 0);
  const size_t length = windows.front().size();
  for (size_t begin = 0, n = 0; begin < length; begin += n) {
    const bool counts = begin >= pace.prompt;
    n = std::min(counts ? pace.chunk : std::min<size_t>(kChunk, pace.prompt - begin),
                 length - begin);
    const size_t next = std::min(n, length - begin - 1);
    KVICK_TRY_VOID(reader.read(windows, begin, n, counts));
    if (reference != nullptr) KVICK_TRY_VOID(reference->read(windows, begin, n, counts));
    if (!counts) continue;
    for (size_t lane = 0; lane < windows.size(); ++lane)
      score(reader, reference, {.index = lane, .first = lane * n},
            windows[lane].subspan(begin + 1, next), sums);
  }
  for (const double nll : sums.lanes) {
    sums.nll += nll;
    const size_t predicted = length - pace.prompt - 1;
    sums.tokens += predicted;
    sums.windows.push_back(nll / static_cast<double>(predicted));
  }
  return base::Done{};
}

double standard_error(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return 0;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1) / n);
}

Perplexity summary(Sums& sums) {
  Perplexity result;
  result.tokens = sums.tokens;
  result.nll = sums.nll / static_cast<double>(sums.tokens);
  result.perplexity = std::exp(result.nll);
  result.nll_error = standard_error(sums.windows, result.nll);
  if (!sums.divergences.empty()) {
    result.reference_perplexity = std::exp(sums.reference_nll / static_cast<double>(sums.tokens));
    double total = 0;
    for (const double divergence : sums.divergences) total += divergence;
    result.kl_mean = total / static_cast<double>(sums.divergences.size());
    const auto p99 =
        sums.divergences.begin() +
        static_cast<ptrdiff_t>(0.99 * static_cast<double>(sums.divergences.size() - 1));
    std::nth_element(sums.divergences.begin(), p99, sums.divergences.end());
    result.kl_p99 = *p99;
    result.top1_agreement =
        static_cast<double>(sums.agreed) / static_cast<double>(sums.divergences.size());
  }
  return result;
}

// Returns the options of the cache of one window.
KvOptions cache_for(const Engine& engine, KvOptions kv, uint32_t window) {
  if (!engine.endless(kv) || kv.max_tokens == 0)
    kv.max_tokens = std::min(window, engine.model().config().context);
  return kv;
}

// Returns the bytes that a token reads in the layers that do not follow the policy. A policy counts
// only what it reads itself.
base::Result<uint64_t> unchosen_bytes(const Engine& engine, const KvOptions& kv, uint32_t window) {
  const KvOptions one = cache_for(engine, kv, window);
  const kv::StoreInfo info = engine.store_info(one);
  KVICK_TRY(const std::vector<kv::Cost> costs, engine.group_costs(one, {.tokens = window}));
  uint64_t bytes = 0;
  for (size_t g = 0; g < costs.size(); ++g)
    if (!kv::follows_policy(info.groups[g])) bytes += costs[g].read_bytes_per_token;
  return bytes;
}

Result<Reader> make_reader(Engine& engine, const KvOptions& kv, uint32_t window) {
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine.make_store(cache_for(engine, kv, window)));
  return Reader(engine, std::move(store), engine.prompt_role(kv),
                kv::forgets(engine.resolved(kv).select));
}

base::Status<> check_window(const Engine& engine, const KvOptions& kv, uint32_t window,
                            std::string_view whose) {
  const model::Config& config = engine.model().config();
  const uint32_t most = engine.endless(kv) ? config.most_positions() : config.context;
  if (window < 2 || window > most)
    return fail("a window of {} tokens, but it must be 2 to the {}'s context of {}", window, whose,
                most);
  return base::Done{};
}

// Probabilities are compared token by token, so both vocabularies must be equal.
base::Status<> check_vocabularies(const Engine& engine, const Engine& reference) {
  const uint32_t own = engine.model().config().vocab, other = reference.model().config().vocab;
  if (own != other)
    return fail(
        "the model has a vocabulary of {} tokens and the reference one of {}: only models "
        "with the same vocabulary can be compared",
        own, other);
  const auto& pieces = engine.tokenizer().vocabulary().pieces;
  const auto& others = reference.tokenizer().vocabulary().pieces;
  if (pieces == others) return base::Done{};
  const auto differs = std::mismatch(pieces.begin(), pieces.end(), others.begin(), others.end());
  return fail(
      "the model and the reference have different vocabularies, from token {} on: only "
      "models with the same vocabulary can be compared",
      differs.first - pieces.begin());
}

bool depends_on_steps(const Engine& engine, const KvOptions& kv) {
  return !reads_all(kv) || engine.resolved(kv).aging.has_value() ||
         kv.type_of_states() != kernels::DType::kF32;
}

// Returns none if there is nothing to compare with.
Result<std::optional<Reader>> make_reference(Engine& engine, const PerplexityOptions& options,
                                             uint32_t window) {
  if (options.reference == nullptr && !options.against) return std::optional<Reader>();
  Engine& reference = options.reference != nullptr ? *options.reference : engine;
  const KvOptions& kv = options.against ? *options.against : options.kv;
  KVICK_TRY_VOID(check_window(reference, kv, options.window, "reference"));
  KVICK_TRY_VOID(check_vocabularies(engine, reference));
  KVICK_TRY(Reader reader, make_reader(reference, kv, window));
  return std::optional<Reader>(std::move(reader));
}

}  // namespace

uint64_t predicted_tokens(size_t text, const PerplexityOptions& options) {
  if (options.most != 0) text = std::min<size_t>(text, options.most);
  const size_t window = std::min<size_t>(options.window, text);
  if (window < size_t{options.prompt} + 2) return 0;
  return text / window * (window - options.prompt - 1);
}

Result<Perplexity> perplexity(Engine& engine, std::span<const Token> text,
                              const PerplexityOptions& options) {
  KVICK_TRY_VOID(check_window(engine, options.kv, options.window, "model"));
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  if (text.size() < 2) return fail("the text has {} tokens; it needs at least 2", text.size());
  const uint32_t window = static_cast<uint32_t>(std::min<size_t>(options.window, text.size()));
  const size_t windows = text.size() / window;
  if (size_t{options.prompt} + 2 > window)
    return fail("a prompt of {} tokens leaves nothing to predict in a window of {}", options.prompt,
                window);

  KVICK_TRY(Reader reader, make_reader(engine, options.kv, window));
  KVICK_TRY(std::optional<Reader> reference, make_reference(engine, options, window));
  const bool steps = depends_on_steps(engine, options.kv) ||
                     (options.against && depends_on_steps(engine, *options.against));
  const size_t lanes = steps ? kMostLanes : 1;
  const Pace pace = {.prompt = options.prompt, .chunk = steps ? 1 : kChunk};
  Sums sums;
  for (size_t i = 0; i < windows;) {
    std::vector<std::span<const Token>> some;
    for (; some.size() < lanes && i < windows; ++i)
      some.push_back(text.subspan(i * window, window));
    KVICK_TRY_VOID(read_windows(reader, reference ? &*reference : nullptr, some, pace, sums));
    if (options.progress) options.progress(i * window, windows * window);
  }
  Perplexity result = summary(sums);
  result.kv_bytes = reader.held_bytes();
  KVICK_TRY(const kv::Cost cost,
            engine.cost(cache_for(engine, options.kv, window), {.tokens = window, .sequences = 1}));
  result.kv_read_bytes_per_token = cost.read_bytes_per_token;
  if (reader.read_bytes() > 0) {
    KVICK_TRY(const uint64_t others, unchosen_bytes(engine, options.kv, window));
    result.kv_read_bytes_per_token = reader.read_bytes() + others;
  }
  result.slow_read_bytes_per_token = cost.slow_read_bytes_per_token;
  return result;
}

}  // namespace kvick::engine
