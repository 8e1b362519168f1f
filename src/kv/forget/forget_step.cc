#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "kv/forget/forget_store.h"
#include "kv/rows/fresh_rows.h"
#include "kv/select/row_arithmetic.h"

namespace kvick::kv {

ForgetStep::ForgetStep(ForgetStore& store, std::vector<StepSlot> step_slots,
                       std::vector<RowBuffer> fresh)
    : CheckedStep(store, std::move(step_slots)), store_(store), fresh_(std::move(fresh)) {
  size_t most = 0;  // rows of a slot
  for (uint32_t slot = 0; slot < this->step_slots().size(); ++slot) {
    const ForgetSequence& sequence = this->sequence(slot);
    const uint32_t added = fresh_[slot].rows();
    // Without rotation all of them are read the same way.
    const uint32_t sinks = std::min(
        sequence.held, store_.rule_.rotates_sinks ? store_.rule_.selection.sinks : uint32_t{0});
    runs_.push_back({.sinks = {.row = 0, .rows = sinks, .pos = 0},
                     .others = {.row = sinks, .rows = sequence.held - sinks, .pos = sinks},
                     .fresh = {.row = 0, .rows = added, .pos = sequence.length}});
    const size_t heads = size_t{store_.shape().layers} * store_.shape().kv_heads;
    const bool noted = store_.rule_.notes(sequence.length + added);
    probs_.emplace_back(noted ? heads * (sequence.held + added) : 0);
    most = std::max<size_t>(most, sequence.held + added);
  }
  const base::ThreadPool* const pool = store_.setup().compute.pool;
  scratch_.resize(pool != nullptr ? pool->size() : 1);
  for (Scratch& scratch : scratch_) {
    scratch.notes.reserve(most);
    scratch.go.reserve(most);
  }
}

void ForgetStep::write_rows(uint32_t layer, const float* k, const float* v) {
  write_fresh_rows(store_.setup(), step_slots(), {.layer = layer, .k = k, .v = v},
                   [&](uint32_t slot, uint32_t head, bool is_v, uint32_t i) {
                     return fresh_[slot].row(layer, head, is_v, i);
                   });
}

void ForgetStep::view_rows(const Query& query, base::Arena& scratch, kernels::View& out) {
  const ForgetSequence& sequence = this->sequence(query.slot);
  const Runs& runs = runs_[query.slot];
  const auto segment = [&](const RowBuffer& rows, const kernels::Run& run) {
    kernels::Segment made = segment_of(store_.setup(), query.layer, query.head,
                                       rows.row(query.layer, query.head, false, 0),
                                       rows.row(query.layer, query.head, true, 0));
    made.runs = {&run, 1};
    return made;
  };
  out = {};
  if (runs.sinks.rows > 0) {
    out.past.push_back(segment(sequence.rows, runs.sinks));
    if (sequence.length > sequence.held) out.past[0].q = rotated(query, scratch);
  }
  if (runs.others.rows > 0) out.past.push_back(segment(sequence.rows, runs.others));
  out.fresh = segment(fresh_[query.slot], runs.fresh);
  const Shape& shape = store_.shape();
  store_.read_bytes_.fetch_add((uint64_t{sequence.held} + runs.fresh.rows) *
                                   (shape.row_bytes(false) + shape.row_bytes(true)),
                               std::memory_order_relaxed);
}

// The queries as if the rows that are gone had never been: the distances to the sinks are those in
// the cache.
const float* ForgetStep::rotated(const Query& query, base::Arena& scratch) const {
  const Setup& setup = store_.setup();
  if (setup.select.rotation.frequency.empty()) return nullptr;
  KVICK_CHECK(query.q != nullptr, "a view without queries of a store whose views depend on them");
  const ForgetSequence& sequence = this->sequence(query.slot);
  const uint32_t dims = setup.select.rotation.dims, head_dim = store_.shape().head_dim;
  const std::span<float> turn = scratch.make<float>(dims);
  const size_t pairs = setup.select.rotation.frequency.size();
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = -setup.select.rotation.frequency[i] * (sequence.length - sequence.held);
    turn[i] = static_cast<float>(std::cos(angle));
    turn[pairs + i] = static_cast<float>(std::sin(angle));
  }
  const uint32_t block = store_.shape().hadamard_blocks().k;
  const size_t count = size_t{fresh_[query.slot].rows()} * setup.select.group;
  const std::span<float> q = scratch.make<float>(count * head_dim);
  for (size_t i = 0; i < count; ++i) {
    float* const to = q.data() + i * head_dim;
    std::copy_n(
        query.q + i / setup.select.group * query.q_stride + i % setup.select.group * head_dim,
        head_dim, to);
    const kernels::Table& kernels = kernels_of(setup);
    if (block != 0) kernels.hadamard(to, head_dim, block);  // back: positions are within pairs
    kernels.rope(to, turn.data(), dims, setup.select.rotation.interleaved);
    if (block != 0) kernels.hadamard(to, head_dim, block);
  }
  return q.data();
}

void ForgetStep::observe(const Query& query, const kernels::View&, std::span<const float> probs) {
  check_query(query);
  if (probs_[query.slot].empty()) return;
  const size_t rows = sequence(query.slot).held + fresh_[query.slot].rows();
  KVICK_CHECK_EQ(probs.size(), rows);
  const size_t at = size_t{query.layer} * store_.shape().kv_heads + query.head;
  std::copy_n(probs.data(), rows, probs_[query.slot].data() + at * rows);
}

// What a row's probability, summed over the queries of a slot and KV head, counts. A step of many
// tokens has as many queries, of which the sum alone is known: the mean stands for each.
float ForgetStep::noted(uint32_t slot, float probability) const {
  if (store_.rule_.noted == Noted::kMass) return probability;
  const auto fresh = static_cast<float>(fresh_[slot].rows());
  const auto rows = static_cast<float>(sequence(slot).held) + fresh;
  const float queries = fresh * static_cast<float>(store_.setup().select.group);
  return probability * rows < queries ? -fresh : 0;
}

void ForgetStep::keep_all(const Kept& kept) {
  CheckedStep::keep_all(kept);
  release();
}

void ForgetStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  ForgetSequence& sequence = this->sequence(slot);
  const Shape& shape = store_.shape();
  const auto work = [&](size_t begin, size_t end, unsigned worker) {
    for (size_t at = begin; at < end; ++at) keep_of_head(slot, at, kept, scratch_[worker]);
  };
  constexpr size_t kGrain = 16;  // heads that one thread does before the others help
  const size_t heads = size_t{shape.layers} * shape.kv_heads;
  if (base::ThreadPool* const pool = store_.setup().compute.pool)
    pool->parallel_for(heads, kGrain, work);
  else
    work(0, heads, 0);
  sequence.length += static_cast<uint32_t>(kept.size());
  sequence.held = store_.rule_.held(sequence.length);
  store_.copied_bytes_ += kept.size() * shape.token_bytes();
}

// Of rows that may go, with what is noted of each by its number, as many as have to: those that
// count least, of equal ones the oldest. In order.
void ForgetStep::give_up(const ForgetRule& rule, uint32_t tokens, Scratch& scratch) {
  const std::vector<RowNote>& notes = scratch.notes;
  std::vector<uint32_t>& go = scratch.go;
  const uint32_t stay = rule.held(tokens), all = static_cast<uint32_t>(notes.size());
  go.clear();
  if (all <= stay) return;
  const uint32_t newest = tokens - rule.recent(tokens);
  for (uint32_t row = 0; row < all; ++row)
    if (notes[row].pos >= rule.selection.sinks && notes[row].pos < newest) go.push_back(row);
  // Without an order of all values std::nth_element leaves its range: what is not a number counts
  // least.
  const auto mass_of = [&](uint32_t row) {
    return std::isnan(notes[row].mass) ? -std::numeric_limits<float>::infinity() : notes[row].mass;
  };
  const auto before = [&](uint32_t a, uint32_t b) {
    const float x = mass_of(a), y = mass_of(b);
    return x != y ? x < y : notes[a].pos < notes[b].pos;
  };
  std::nth_element(go.begin(), go.begin() + (all - stay), go.end(), before);
  go.resize(all - stay);
  std::sort(go.begin(), go.end());
}

// What is noted of the rows that were held and of those that are kept, by number: held ones are
// first.
void ForgetStep::note(uint32_t slot, size_t at, std::span<const uint32_t> kept,
                      std::vector<RowNote>& notes) const {
  const ForgetSequence& sequence = this->sequence(slot);
  const uint32_t held = sequence.held;
  const auto first = sequence.notes.begin() + static_cast<ptrdiff_t>(at * sequence.rows.rows());
  notes.assign(first, first + held);
  for (uint32_t i = 0; i < kept.size(); ++i) notes.push_back({.pos = sequence.length + i});
  if (probs_[slot].empty()) return;
  const float* const probs = probs_[slot].data() + at * (held + fresh_[slot].rows());
  for (uint32_t row = 0; row < notes.size(); ++row)
    notes[row].mass += noted(slot, probs[row < held ? row : held + kept[row - held]]);
}

// Rows that stay keep their place if it is one of the first; new ones and the others take the
// places of those that go.
void ForgetStep::keep_of_head(uint32_t slot, size_t at, std::span<const uint32_t> kept,
                              Scratch& scratch) {
  ForgetSequence& sequence = this->sequence(slot);
  const ForgetRule& rule = store_.rule_;
  const auto layer = static_cast<uint32_t>(at / store_.shape().kv_heads);
  const auto head = static_cast<uint32_t>(at % store_.shape().kv_heads);
  note(slot, at, kept, scratch.notes);
  const uint32_t tokens = sequence.length + static_cast<uint32_t>(kept.size());
  give_up(rule, tokens, scratch);
  const std::vector<RowNote>& all = scratch.notes;
  const std::vector<uint32_t>& go = scratch.go;
  const uint32_t held = sequence.held, stay = static_cast<uint32_t>(all.size() - go.size());
  const uint32_t in_place = std::min(held, stay);
  RowNote* const notes = sequence.notes.data() + at * sequence.rows.rows();
  std::copy_n(all.begin(), in_place, notes);
  auto gone = go.begin();
  uint32_t spare = held;
  for (uint32_t row = in_place; row < all.size(); ++row) {
    if (std::binary_search(go.begin(), go.end(), row)) continue;
    const uint32_t to = gone != go.end() && *gone < in_place ? *gone++ : spare++;
    for (const bool is_v : {false, true})
      std::memcpy(sequence.rows.row(layer, head, is_v, to),
                  row < held ? sequence.rows.row(layer, head, is_v, row)
                             : fresh_[slot].row(layer, head, is_v, kept[row - held]),
                  store_.shape().row_bytes(is_v));
    notes[to] = all[row];
  }
  if (rule.noted == Noted::kLows && !go.empty())  // each time is judged by what was noted since
    for (uint32_t row = 0; row < stay; ++row) notes[row].mass = 0;
}

void ForgetStep::release() {
  for (const RowBuffer& buffer : fresh_) store_.own_bytes_ -= buffer.bytes();
  fresh_.clear();  // only once, then: a step may outlive its commit
}

}  // namespace kvick::kv
