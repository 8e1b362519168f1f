#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvick::engine {
namespace {

using base::fail;
using base::Result;

// Tokens of one forward: logits of each are kept, 200 KB a token at a vocabulary of 50 k, so fewer
// than in prefill.
constexpr uint32_t kChunk = 128;

double log_sum_exp(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

size_t likeliest(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// One cache and the logits of the chunk it has just read.
class Reader {
 public:
  Reader(Engine& engine, std::unique_ptr<kv::Store> store)
      : engine_(engine), store_(std::move(store)), workspace_(engine.make_workspace()) {}

  void restart() {
    if (open_) store_->close(seq_);
    seq_ = store_->open({}).seq;
    open_ = true;
    past_ = 0;
  }

  base::Status<> read(std::span<const Token> tokens) {
    const model::Slot slot = {.seq = seq_, .past = past_, .tokens = tokens, .parents = {}};
    const model::Batch batch = {.slots = {&slot, 1}};
    std::vector<kv::Slot> slots = model::kv_slots(batch);
    for (kv::Slot& each : slots) each.tokens = {};  // nobody will ask for these again
    auto step = store_->begin({.slots = slots});
    if (!step.ok()) return fail("no room for a window: {}", step.error().what);
    std::vector<uint32_t> wanted(tokens.size());
    for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
    logits_.resize(tokens.size() * vocab());
    engine_.model().forward(batch, **step, workspace_, wanted, logits_.data());
    if (const std::string why = store_->failure(seq_); !why.empty())
      return fail("a window's rows are lost: {}", why);
    (*step)->commit(kv::Kept::all({.slots = slots}));
    past_ += static_cast<uint32_t>(tokens.size());
    return base::Done{};
  }

  std::span<const float> logits(size_t token) const {
    return std::span(logits_).subspan(token * vocab(), vocab());
  }
  const kv::Store& store() const { return *store_; }

 private:
  size_t vocab() const { return engine_.model().config().vocab; }
  Engine& engine_;
  std::unique_ptr<kv::Store> store_;
  model::Workspace workspace_;
  kv::SeqId seq_{};
  bool open_ = false;
  uint32_t past_ = 0;
  std::vector<float> logits_;
};

struct Sums {
  std::vector<double> windows;  // mean negative log-likelihood of each
  std::vector<double> divergences;
  double nll = 0, window_nll = 0, reference_nll = 0;
  uint64_t tokens = 0, window_tokens = 0, agreed = 0;
};

// next: the tokens that the chunk just read should have predicted; the last logits of a window
// predict nothing.
void score(const Reader& reader, const Reader* reference, std::span<const Token> next, Sums& sums) {
  for (size_t i = 0; i < next.size(); ++i) {
    const std::span<const float> logits = reader.logits(i);
    const double total = log_sum_exp(logits);
    sums.window_nll += total - logits[static_cast<size_t>(next[i])];
    ++sums.window_tokens;
    if (reference == nullptr) continue;
    const std::span<const float> exact = reference->logits(i);
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

base::Status<> read_window(Reader& reader, Reader* reference, std::span<const Token> window,
                           Sums& sums) {
  reader.restart();
  if (reference != nullptr) reference->restart();
  for (size_t begin = 0; begin < window.size(); begin += kChunk) {
    const size_t n = std::min<size_t>(kChunk, window.size() - begin);
    KVICK_TRY_VOID(reader.read(window.subspan(begin, n)));
    if (reference != nullptr) KVICK_TRY_VOID(reference->read(window.subspan(begin, n)));
    score(reader, reference, window.subspan(begin + 1, std::min(n, window.size() - begin - 1)),
          sums);
  }
  sums.nll += sums.window_nll;
  sums.tokens += sums.window_tokens;
  sums.windows.push_back(sums.window_nll / static_cast<double>(sums.window_tokens));
  sums.window_nll = 0;
  sums.window_tokens = 0;
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

bool ends(const KvOptions& kv) {
  const kv::Strategy* strategy = kv::find_strategy(kv.spec.name);
  return strategy == nullptr || !strategy->traits.endless;
}

// The cache of one window.
KvOptions cache_for(const Engine& engine, KvOptions kv, uint32_t window) {
  if (ends(kv) || kv.max_tokens == 0)
    kv.max_tokens = std::min(window, engine.model().config().context);
  return kv;
}

Result<Reader> make_reader(Engine& engine, const KvOptions& kv, uint32_t window) {
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine.make_store(cache_for(engine, kv, window)));
  return Reader(engine, std::move(store));
}

base::Status<> check_window(const Engine& engine, const KvOptions& kv, uint32_t window,
                            std::string_view whose) {
  const model::Config& config = engine.model().config();
  const uint32_t most = ends(kv) ? config.context : config.most_positions();
  if (window < 2 || window > most)
    return fail("a window of {} tokens, but it must be 2 to the {}'s context of {}", window, whose,
                most);
  return base::Done{};
}

// Probabilities are compared token by token, so both must mean the same by each.
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

// Null if there is nothing to compare with.
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

Result<Perplexity> perplexity(Engine& engine, std::span<const Token> text,
                              const PerplexityOptions& options) {
  KVICK_TRY_VOID(check_window(engine, options.kv, options.window, "model"));
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  if (text.size() < 2) return fail("the text has {} tokens; it needs at least 2", text.size());
  const uint32_t window = static_cast<uint32_t>(std::min<size_t>(options.window, text.size()));
  const size_t windows = text.size() / window;

  KVICK_TRY(Reader reader, make_reader(engine, options.kv, window));
  KVICK_TRY(std::optional<Reader> reference, make_reference(engine, options, window));
  Sums sums;
  for (size_t i = 0; i < windows; ++i) {
    KVICK_TRY_VOID(read_window(reader, reference ? &*reference : nullptr,
                               text.subspan(i * window, window), sums));
    if (options.progress) options.progress((i + 1) * window, windows * window);
  }
  Perplexity result = summary(sums);
  const kv::Usage usage = reader.store().usage();
  result.kv_bytes = usage.allocated_bytes + usage.slow_bytes;
  KVICK_TRY(const kv::Cost cost,
            engine.cost(cache_for(engine, options.kv, window), {.tokens = window, .sequences = 1}));
  result.kv_read_bytes_per_token = cost.read_bytes_per_token;
  result.slow_read_bytes_per_token = cost.slow_read_bytes_per_token;
  return result;
}

}  // namespace kvick::engine
