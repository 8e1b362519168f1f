#include "engine/session/session.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/sharing/failure_text.h"
#include "engine/speculation/verify.h"

namespace kvick::engine {

using base::fail;

namespace {

AnswerForm form_of(const Request& request) {
  return {.sampling = request.sampling,
          .most = request.max_tokens != 0 ? request.max_tokens : UINT32_MAX,
          .stop = request.stop,
          .special_text = request.special_text,
          .continues = request.continues,
          .ignore_end = request.ignore_end,
          .stop_loops = request.stop_loops,
          .logprobs = {},
          .constraint = request.constraint};
}

// Replaces a sequence by an empty one. Opens that one first: if the store throws, `seq` is still
// open and has the rows of the tokens `committed`.
void renew(kv::Store& store, kv::SeqId& seq, std::vector<Token>& committed) {
  const kv::SeqId old = std::exchange(seq, store.open({}).seq);
  committed.clear();
  store.close(old);
}

// Returns which of `tokens` tokens need states: all if the speculator reads states, else none.
std::vector<uint32_t> states_for(const Speculator* speculator, size_t tokens) {
  if (speculator == nullptr || !speculator->reads_states()) return {};
  std::vector<uint32_t> all(tokens);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Session::Session(Engine& engine, kv::Store& store, base::Clock clock)
    : engine_(engine),
      store_(store),
      clock_(clock),
      executor_(engine.make_executor()),
      seq_(store.open({}).seq),
      speculation_(engine, clock) {}

Session::~Session() {
  try {
    store_.close(seq_);
  } catch (const std::bad_alloc&) {  // the store keeps it; the process most likely ends too
  }
}

base::Status<> Session::check(const Request& request) const {
  const auto vocab = static_cast<uint32_t>(engine_.tokenizer().vocabulary().pieces.size());
  KVICK_TRY_VOID(engine_.check_writes());
  KVICK_TRY_VOID(engine::check(form_of(request), vocab));
  if (request.prompt.empty()) return fail("the prompt is empty: there is nothing to go on from");
  const uint32_t context = store_.most_tokens();
  if (request.prompt.size() > context)
    return fail("the prompt has {} tokens, but the context holds {}; shorten it",
                request.prompt.size(), context);
  return base::Done{};
}

// Prepares the sequence for a prompt. Returns how many of the prompt's tokens have rows already; at
// least one is always left to compute, for its logits.
uint32_t Session::reuse(const std::vector<Token>& prompt) {
  const bool continues = committed_.size() < prompt.size() &&
                         std::equal(committed_.begin(), committed_.end(), prompt.begin());
  if (!continues) {
    // Closed before the next one opens, which may then have its rows.
    renew(store_, seq_, committed_);
    const kv::Opened opened = store_.open(std::span(prompt).first(prompt.size() - 1));
    std::vector<Token> known(prompt.begin(), prompt.begin() + opened.cached);
    const kv::SeqId empty = std::exchange(seq_, opened.seq);
    committed_ = std::move(known);
    store_.close(empty);
  }
  return static_cast<uint32_t>(committed_.size());
}

base::Status<> Session::advance(std::span<const Token> tokens, Speculator* speculator) {
  const model::Slot slot = {.seq = seq_,
                            .past = static_cast<uint32_t>(committed_.size()),
                            .tokens = tokens,
                            .parents = {},
                            .role = prompt_role_,
                            .prompt = true,
                            .adapter = adapter_.weights(),
                            .adapter_scale = adapter_.scale};
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  const std::vector<uint32_t> all = states_for(speculator, tokens.size());
  const auto done = executor_.advance(store_, {.slots = {&slot, 1}}, {&last, 1}, all);
  if (!done.ok() && !kv::failure(store_, seq_).empty()) return lose();
  if (!done.ok()) return fail("no room for more tokens of the prompt: {}", done.error().what);
  committed_.insert(committed_.end(), tokens.begin(), tokens.end());
  show(speculator, slot.past, all);
  return base::Done{};
}

void Session::show(Speculator* speculator, size_t first, std::span<const uint32_t> kept) {
  if (speculator == nullptr || !speculator->reads_states()) return;
  const std::vector<float> states = states_of_rows(executor_, kept);
  if (auto failed = speculator->see({.text = committed_, .first = first, .states = states.data()}))
    draft_failure_ = std::move(failed);
}

// A slower tier has lost the sequence's rows: the next prompt gets a new sequence.
base::Error Session::lose() {
  const std::string why = kv::failure(store_, seq_);
  renew(store_, seq_, committed_);
  return fail("the session's rows are lost: {}", why);
}

// Where a piece finds no room it tries half of it, as the scheduler does: windows and policies that
// forget keep all rows of a step until it ends, so a shorter piece takes less memory.
base::Status<> Session::prefill(const Request& request, uint32_t from, Speculator* speculator) {
  const auto total = static_cast<uint32_t>(request.prompt.size());
  for (uint32_t done = from; done < total;) {
    uint32_t n = std::min(kPrefillChunk, total - done);
    const kv::SeqId seq = seq_;
    const auto piece = [&] { return std::span(request.prompt).subspan(done, n); };
    auto advanced = advance(piece(), speculator);
    // A sequence that lost its rows was replaced by an empty one, which cannot go on from here.
    while (!advanced.ok() && seq_ == seq && n > 1) {
      n /= 2;
      advanced = advance(piece(), speculator);
    }
    KVICK_TRY_VOID(std::move(advanced));
    done += n;
    if (request.on_prefill) request.on_prefill(done, total);
  }
  return base::Done{};
}

struct Session::Writing {
  const Request& request;
  Answer& answer;
  AnswerWriter writer;
  std::vector<Token> text;                 // prompt and answer
  std::unique_ptr<Speculator> speculator;  // null: no draft tokens
};

// Appends tokens and text to the answer. Returns false if the answer has ended.
bool Session::take(Writing& writing, WrittenTokens&& written) {
  const Request& request = writing.request;
  Answer& answer = writing.answer;
  if (written.token) {
    answer.tokens.push_back(*written.token);
    writing.text.push_back(*written.token);
  }
  answer.text += written.text;
  const bool wanted = written.text.empty() || !request.on_text || request.on_text(written.text);
  answer.finish = wanted ? written.finish.value_or(Finish::kLength) : Finish::kCancelled;
  return wanted && !written.finish;
}

Drafts Session::propose(Writing& writing) {
  if (writing.speculator == nullptr) return {};
  const PlainStep plain = plain_step(1, store_.length(seq_));
  const double stake = speculation_.account.tokens();
  if (spec_.gain && !may_draft(plain, speculation_.cost, stake)) return {};
  uint32_t room = draft_room(store_, seq_, spec_.grow);
  if (writing.request.max_tokens != 0)
    room = std::min(room, writing.request.max_tokens - writing.writer.tokens() - 1);
  const DraftAsk ask = {.text = writing.text,
                        .most = room,
                        .depth = room,
                        .store = &store_,
                        .seq = seq_,
                        .sampler = &writing.writer.sampler(),
                        .form = writing.writer.constraint(),
                        .adapter = adapter_.weights(),
                        .adapter_scale = adapter_.scale};
  Drafts drafts;
  try {
    drafts = writing.speculator->propose(ask, plain);
  } catch (...) {  // the answer continues without draft tokens
    draft_failure_ = std::current_exception();
    speculation_.distrust();
    writing.speculator.reset();
    return {};
  }
  if (spec_.gain) drafts.keep(least_chance(drafts.chances, plain, speculation_.cost, stake), room);
  return drafts;
}

// If the store has no room for the draft tokens, tries again without them. A lost sequence has no
// rows to continue from.
base::Result<bool> Session::go_on(Writing& writing) {
  const Drafts drafts = propose(writing);
  auto goes_on = step(writing, drafts);
  const bool again = !goes_on.ok() && drafts.size() > 0 && !committed_.empty();
  return again ? step(writing, {}) : goes_on;
}

base::Result<bool> Session::step(Writing& writing, const Drafts& drafts) {
  const double start = clock_();
  const FreshTokens fresh(writing.text.back(), drafts.tree);
  const model::Slot slot = {.seq = seq_,
                            .past = static_cast<uint32_t>(committed_.size()),
                            .tokens = fresh.tokens,
                            .parents = fresh.parents,
                            .role = model::Role::kAnswer,
                            .reusable = prompt_role_ == model::Role::kAnswer,
                            .adapter = adapter_.weights(),
                            .adapter_scale = adapter_.scale};
  std::vector<uint32_t> wanted(fresh.tokens.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  Speculator* const speculator = writing.speculator.get();
  auto step =
      executor_.run(store_, {.slots = {&slot, 1}}, wanted, states_for(speculator, wanted.size()));
  if (!step.ok() && !kv::failure(store_, seq_).empty()) return lose();
  if (!step.ok()) return fail("no room for one more token: {}", step.error().what);
  bool goes_on = true;
  const std::vector<uint32_t> kept =
      verify(writing.writer, drafts.tree, executor_.logits(),
             {.committed = slot.past, .most = store_.most_tokens()},
             [&](WrittenTokens&& written) { return goes_on = take(writing, std::move(written)); });
  step->commit({.rows = {kept}});
  if (!kv::failure(store_, seq_).empty()) return lose();
  for (const uint32_t row : kept) committed_.push_back(fresh.tokens[row]);
  show(speculator, slot.past, kept);
  StepShape shape;
  shape.add(static_cast<uint32_t>(wanted.size()), slot.past);
  const auto came = static_cast<uint32_t>(kept.size());
  PlainStep plain = {.tokens = came, .shape = shape};
  if (spec_.gain) plain = plain_step(1, slot.past);
  speculation_.observe(shape, plain, came, clock_() - start);
  writing.answer.drafted += drafts.size();
  writing.answer.accepted += static_cast<uint32_t>(kept.size() - 1);
  return goes_on;
}

base::Status<> Session::decode(const Request& request, std::unique_ptr<Speculator> speculator,
                               Answer& answer) {
  Writing writing = {
      .request = request,
      .answer = answer,
      .writer = {engine_.tokenizer(), engine_.kernels(), request.prompt, form_of(request)},
      .text = request.prompt,
      .speculator = std::move(speculator)};
  bool goes_on = take(
      writing, writing.writer.next(executor_.logits(), committed_.size() < store_.most_tokens()));
  while (goes_on) {
    KVICK_TRY(goes_on, go_on(writing));
  }
  if (spec_.on()) speculation_.add_text(writing.text);
  return base::Done{};
}

base::Status<> Session::speculate(const SpecOptions& options) {
  KVICK_TRY_VOID(speculation_.prepare(options));
  spec_ = options;
  return base::Done{};
}

base::Result<Answer> Session::generate(const Request& request) {
  KVICK_TRY_VOID(check(request));
  Answer answer;
  answer.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
  answer.cached_tokens = reuse(request.prompt);
  const double start = clock_();
  draft_failure_ = nullptr;
  std::unique_ptr<Speculator> speculator = speculation_.begin(spec_);
  KVICK_TRY_VOID(prefill(request, answer.cached_tokens, speculator.get()));
  const double prefilled = clock_();
  KVICK_TRY_VOID(decode(request, std::move(speculator), answer));
  answer.prefill_s = prefilled - start;
  answer.decode_s = clock_() - prefilled;
  if (draft_failure_) answer.draft_failure = failure_text(draft_failure_);
  return answer;
}

}  // namespace kvick::engine
