#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kv/forget/forget_store.h"
#include "kv/rows/fresh_rows.h"
#include "kv/select/predictor.h"
#include "kv/select/row_arithmetic.h"

namespace kvick::kv {
namespace {

// Adds in eight lanes, for which the compiler can use vectors.
float sum_of(std::span<const float> values) {
  float lanes[8] = {};
  size_t at = 0;
  for (; at + 8 <= values.size(); at += 8)
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += values[at + lane];
  for (; at < values.size(); ++at) lanes[0] += values[at];
  return std::accumulate(std::begin(lanes), std::end(lanes), 0.0F);
}

}  // namespace

ForgetStep::ForgetStep(ForgetStore& store, std::vector<StepSlot> step_slots,
                       std::vector<RowBuffer> fresh, std::vector<RowPool> after,
                       std::vector<ForgetChoice> choices)
    : CheckedStep(store, std::move(step_slots)),
      store_(store),
      fresh_(std::move(fresh)),
      after_(std::move(after)),
      choices_(std::move(choices)) {
  const Shape& shape = store_.shape();
  const size_t heads = size_t{shape.layers} * shape.kv_heads;
  size_t all = 0;  // fresh rows of all slots
  for (uint32_t slot = 0; slot < this->step_slots().size(); ++slot) {
    const ForgetSequence& sequence = this->sequence(slot);
    const uint32_t added = fresh_[slot].rows();
    fresh_runs_.push_back({.row = 0, .rows = added, .pos = sequence.length});
    std::vector<std::vector<float>>& probs = probs_.emplace_back();
    if (store_.rule_.observes() && store_.rule_.notes(sequence.length + added))
      for (size_t head = 0; head < heads; ++head)
        probs.emplace_back(size_t{sequence.rows.held(head) + added} * apart_of(slot));
    if (store_.rule_.expects())
      queries_.emplace_back(store_.setup(), store_.rule_, sequence.length, added);
    bytes_ += store_.step_bytes(this->step_slots()[slot]) + after_[slot].bytes();
    all += added;
  }
  if (store_.rule_.noted == Noted::kPredicted) predicted_.resize(heads * all);
  for (const ForgetChoice& choice : choices_) bytes_ += choice.bytes;
  store_.own_bytes_ += bytes_;
}

void ForgetStep::write_rows(uint32_t layer, const float* k, const float* v) {
  write_fresh_rows(store_.setup(), step_slots(), {.layer = layer, .k = k, .v = v},
                   [&](uint32_t slot, uint32_t head, bool is_v, uint32_t i) {
                     return fresh_[slot].row(layer, head, is_v, i);
                   });
}

void ForgetStep::view_rows(const Query& query, base::Arena& scratch, kernels::View& out) {
  const ForgetSequence& sequence = this->sequence(query.slot);
  const RowPool& rows = sequence.rows;
  const size_t head = size_t{query.layer} * store_.shape().kv_heads + query.head;
  const uint32_t held = rows.held(head);
  // Without rotation the sinks are read like the other rows.
  const uint32_t sinks =
      std::min(held, store_.rule_.rotates_sinks ? store_.rule_.selection.sinks : uint32_t{0});
  const auto segment = [&](const std::byte* k, const std::byte* v,
                           std::span<const kernels::Run> runs) {
    kernels::Segment made = segment_of(store_.setup(), query.layer, query.head, k, v);
    made.runs = runs;
    return made;
  };
  const auto held_rows = [&](uint32_t first, uint32_t end) {
    return segment(rows.base(false), rows.base(true), rows.runs(head, first, end, first, scratch));
  };
  out = {};
  if (sinks > 0) {
    out.past.push_back(held_rows(0, sinks));
    if (sequence.length > held) out.past[0].q = rotated(query, scratch);
  }
  if (held > sinks) out.past.push_back(held_rows(sinks, held));
  const RowBuffer& fresh = fresh_[query.slot];
  out.fresh = segment(fresh.row(query.layer, query.head, false, 0),
                      fresh.row(query.layer, query.head, true, 0), {&fresh_runs_[query.slot], 1});
  const Shape& shape = store_.shape();
  store_.read_bytes_.fetch_add(
      (uint64_t{held} + fresh.rows()) * (shape.row_bytes(false) + shape.row_bytes(true)),
      std::memory_order_relaxed);
}

// Returns the queries rotated back by the number of dropped rows, so that their distances to the
// sinks are those in the cache; null without rotary embedding.
const float* ForgetStep::rotated(const Query& query, base::Arena& scratch) const {
  const Setup& setup = store_.setup();
  if (setup.select.rotation.frequency.empty()) return nullptr;
  KVICK_CHECK(query.q != nullptr, "a view without queries of a store whose views depend on them");
  const ForgetSequence& sequence = this->sequence(query.slot);
  const uint32_t held =
      sequence.rows.held(size_t{query.layer} * store_.shape().kv_heads + query.head);
  const uint32_t dims = setup.select.rotation.dims, head_dim = store_.shape().head_dim;
  const std::span<float> turn = scratch.make<float>(dims);
  const size_t pairs = setup.select.rotation.frequency.size();
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = -setup.select.rotation.frequency[i] * (sequence.length - held);
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
    if (block != 0) kernels.hadamard(to, head_dim, block);  // undo: rotation acts on plain pairs
    kernels.rope(to, turn.data(), dims, setup.select.rotation.interleaved);
    if (block != 0) kernels.hadamard(to, head_dim, block);
  }
  return q.data();
}

void ForgetStep::observe(const Query& query, const kernels::View&, std::span<const float> probs) {
  check_query(query);
  if (store_.rule_.expects()) return queries_[query.slot].see(store_.setup(), store_.rule_, query);
  if (probs_[query.slot].empty()) return;
  std::vector<float>& to =
      probs_[query.slot][size_t{query.layer} * store_.shape().kv_heads + query.head];
  KVICK_CHECK_EQ(probs.size(), to.size());
  std::copy(probs.begin(), probs.end(), to.begin());
}

void ForgetStep::inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) {
  const Predictor& predictor = *store_.setup().select.predictor;
  const uint32_t heads = store_.shape().kv_heads, dim = predictor.shape.dim;
  float* const out = predicted_.data() + size_t{layer} * positions.size() * heads;
  const auto work = [&](size_t begin, size_t end, unsigned) {
    for (size_t t = begin; t < end; ++t)
      predictor.scores(layer, x + t * dim, kernels_of(store_.setup()), out + t * heads);
  };
  if (base::ThreadPool* const pool = store_.setup().compute.pool)
    pool->parallel_for(positions.size(), 1, work);
  else
    work(0, positions.size(), 0);
}

// Returns the score that a step adds to one of `rows` rows. probability: summed over the queries of
// a slot and KV head. With several tokens only this sum is known, so the mean stands for each
// query. Of a row of the step itself it is the mean over all tokens too, not over those that see
// it: with that, most rows of a prompt's piece had an even share by their neighbours alone,
// important older rows lost the ties, and perplexity behind 6,144 tokens rose by 72 % instead of 14
// %.
float ForgetStep::noted(uint32_t slot, size_t rows, float probability) const {
  if (store_.rule_.noted == Noted::kMass) return probability;
  const auto fresh = static_cast<float>(fresh_[slot].rows());
  const float queries = fresh * static_cast<float>(store_.setup().select.group);
  return probability * static_cast<float>(rows) < queries ? -fresh : 0;
}

void ForgetStep::keep_all(const Kept& kept) {
  CheckedStep::keep_all(kept);
  release();
}

void ForgetStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  ForgetSequence& sequence = this->sequence(slot);
  const Shape& shape = store_.shape();
  const size_t together = store_.together();
  const size_t groups = size_t{shape.layers} * shape.kv_heads / together;
  if (store_.rule_.expects()) {
    for_heads(groups * together, kHeadsAtOnce, [&](size_t begin, size_t end, unsigned) {
      for (size_t head = begin; head < end; ++head)
        queries_[slot].keep(store_.setup(), store_.rule_, head, kept, sequence.queries);
    });
  }
  const Beginning beginning = store_.rule_.noted == Noted::kDocument
                                  ? store_.beginning_of(step_slots()[slot], kept)
                                  : Beginning{};
  if (all_stay(slot, beginning, kept.size())) {
    add_all(slot, kept);
  } else {
    const auto work = [&](size_t begin, size_t end, unsigned worker) {
      for (size_t group = begin; group < end; ++group)
        keep_of_group({.slot = slot, .first = group * together, .heads = together, .kept = kept},
                      choices_[worker]);
    };
    for_heads(groups, groups_at_once(store_.rule_, shape), work);
    move_after(slot);
  }
  sequence.beginning = beginning;
  sequence.length += static_cast<uint32_t>(kept.size());
  store_.copied_bytes_ += kept.size() * shape.token_bytes();
}

void ForgetStep::for_heads(size_t count, size_t grain,
                           base::FunctionRef<void(size_t, size_t, unsigned)> work) {
  if (base::ThreadPool* const pool = store_.setup().compute.pool)
    pool->parallel_for(count, grain, work);
  else
    work(0, count, 0);
}

// Returns whether all rows stay and no scores of existing rows change.
bool ForgetStep::all_stay(uint32_t slot, const Beginning& beginning, size_t kept) const {
  const ForgetSequence& sequence = this->sequence(slot);
  const auto tokens = static_cast<uint32_t>(sequence.length + kept);
  const ForgetRule& rule = store_.rule_;
  if (beginning.other()) return true;
  return probs_[slot].empty() && rule.held(sequence.length) + kept <= rule.held(tokens);
}

void ForgetStep::add_all(uint32_t slot, std::span<const uint32_t> kept) {
  RowPool& pool = this->sequence(slot).rows;
  const Shape& shape = store_.shape();
  const size_t heads = size_t{shape.layers} * shape.kv_heads;
  const auto added = static_cast<uint32_t>(kept.size());
  for (size_t head = 0; head < heads; ++head) pool.resize(head, pool.held(head) + added);
  for_heads(heads, kHeadsAtOnce, [&](size_t begin, size_t end, unsigned) {
    for (size_t head = begin; head < end; ++head) {
      const uint32_t first = pool.held(head) - added;
      for (uint32_t i = 0; i < added; ++i) {
        take_fresh(slot, head, kept[i], first + i);
        pool.note(head, first + i) = new_note({.slot = slot, .kept = kept}, head, i);
      }
    }
  });
}

void ForgetStep::take_fresh(uint32_t slot, size_t head, uint32_t from, uint32_t to) {
  const Shape& shape = store_.shape();
  const auto layer = static_cast<uint32_t>(head / shape.kv_heads);
  const auto of_layer = static_cast<uint32_t>(head % shape.kv_heads);
  for (const bool is_v : {false, true})
    std::memcpy(sequence(slot).rows.row(head, is_v, to),
                fresh_[slot].row(layer, of_layer, is_v, from), shape.row_bytes(is_v));
}

RowNote ForgetStep::new_note(const Keeping& keeping, size_t head, uint32_t i) const {
  RowNote made = {.pos = sequence(keeping.slot).length + i};
  const size_t heads = store_.shape().kv_heads;
  if (store_.rule_.noted == Noted::kHead)
    made.mass = store_.setup().select.predictor->layers[head / heads].k[head % heads];
  if (store_.rule_.noted == Noted::kDocument && made.pos < store_.rule_.document)
    made.mass = store_.setup()
                    .select.predictor->layers[head / heads]
                    .k[head % heads * store_.rule_.document + made.pos];
  if (predicted_.empty()) return made;
  const size_t fresh = predicted_.size() / (store_.shape().layers * heads);
  const size_t token = step_slots()[keeping.slot].first + keeping.kept[i];
  made.mass = predicted_[(head / heads * fresh + token) * heads + head % heads];
  return made;
}

void ForgetStep::enter(const Keeping& keeping, size_t head, uint32_t row,
                       std::span<float> history) const {
  const std::vector<float>& probs = probs_[keeping.slot][head];
  const uint32_t apart = apart_of(keeping.slot), fresh = fresh_[keeping.slot].rows();
  const size_t rows = probs.size() / apart, held = rows - fresh;
  const size_t at = row < held ? row : held + keeping.kept[row - held];
  const size_t kept = keeping.kept.size(), length = sequence(keeping.slot).length;
  for (size_t i = kept - std::min(kept, history.size()); i < kept; ++i) {
    // Index among the tokens observed apart. Earlier ones can be in the window only if later ones
    // were rejected; they count nothing.
    const int64_t token = int64_t{keeping.kept[i]} - (fresh - apart);
    history[(length + i) % history.size()] =
        token < 0 ? 0 : probs[static_cast<size_t>(token) * rows + at];
  }
}

// Scores all rows of a group by the queries of the window.
void ForgetStep::score(const Keeping& keeping, ForgetChoice& choice) const {
  RowPool& pool = sequence(keeping.slot).rows;
  uint32_t begin = 0;
  for (size_t i = 0; i < keeping.heads; begin = choice.ends[i++].row) {
    const size_t head = keeping.first + i;
    for (uint32_t row = begin; row < choice.ends[i].row; ++row) {
      if (row - begin < pool.held(head)) {
        choice.notes[row].mass = sum_of(pool.history(head, row - begin));
        continue;
      }
      std::fill(choice.history.begin(), choice.history.end(), 0.0F);
      enter(keeping, head, row - begin, choice.history);
      choice.notes[row].mass = sum_of(choice.history);
    }
  }
  smooth(store_.rule_, sequence(keeping.slot).length + static_cast<uint32_t>(keeping.kept.size()),
         choice);
}

void ForgetStep::note(const Keeping& keeping, ForgetChoice& choice) const {
  ForgetSequence& sequence = this->sequence(keeping.slot);
  const auto kept = static_cast<uint32_t>(keeping.kept.size());
  std::vector<RowNote>& notes = choice.notes;
  notes.clear();
  choice.ends.clear();
  for (size_t head = keeping.first; head < keeping.first + keeping.heads; ++head) {
    const uint32_t held = sequence.rows.held(head);
    const size_t begin = notes.size();
    for (uint32_t row = 0; row < held; ++row) notes.push_back(sequence.rows.note(head, row));
    for (uint32_t i = 0; i < kept; ++i) notes.push_back(new_note(keeping, head, i));
    choice.ends.push_back({.row = static_cast<uint32_t>(notes.size())});
    if (probs_[keeping.slot].empty()) continue;
    if (store_.rule_.noted == Noted::kWindow) {
      for (uint32_t row = 0; row < held; ++row)
        enter(keeping, head, row, sequence.rows.history(head, row));
      continue;
    }
    const std::vector<float>& probs = probs_[keeping.slot][head];
    for (uint32_t row = 0; row < held + kept; ++row)
      notes[begin + row].mass += noted(keeping.slot, probs.size(),
                                       probs[row < held ? row : held + keeping.kept[row - held]]);
  }
}

void ForgetStep::keep_of_group(const Keeping& keeping, ForgetChoice& choice) {
  const ForgetSequence& sequence = this->sequence(keeping.slot);
  const ForgetRule& rule = store_.rule_;
  const uint32_t tokens = sequence.length + static_cast<uint32_t>(keeping.kept.size());
  note(keeping, choice);
  if (choice.notes.size() > keeping.heads * rule.held(tokens)) {
    if (rule.noted == Noted::kWindow) score(keeping, choice);
    if (rule.expects()) expect(keeping, choice);
  }
  give_up(rule, tokens, choice);
  if (rule.noted == Noted::kLows && !choice.go.empty())
    for (RowNote& one : choice.notes) one.mass = 0;  // counts start anew after a drop
  for (ForgetChoice::End& end : choice.ends)
    end.go = static_cast<uint32_t>(std::lower_bound(choice.go.begin(), choice.go.end(), end.row) -
                                   choice.go.begin());
  // Heads that shrink give blocks back before heads that grow take them.
  for (const bool grows : {false, true}) {
    ForgetChoice::End begin;
    for (size_t head = 0; head < keeping.heads; begin = choice.ends[head++]) {
      const ForgetChoice::End& end = choice.ends[head];
      const uint32_t stay = (end.row - begin.row) - (end.go - begin.go);
      if (grows == (stay > sequence.rows.held(keeping.first + head)))
        keep_of_head(keeping, choice, head);
    }
  }
}

// Rows that stay keep their place if it is among the first `stay` ones; the others and new rows
// take the places of dropped rows.
void ForgetStep::keep_of_head(const Keeping& keeping, const ForgetChoice& choice, size_t head) {
  RowPool& pool = this->sequence(keeping.slot).rows;
  const size_t number = keeping.first + head;
  const ForgetChoice::End begin = head == 0 ? ForgetChoice::End{} : choice.ends[head - 1],
                          end = choice.ends[head];
  const RowNote* const notes = choice.notes.data() + begin.row;
  const auto go_begin = choice.go.begin() + begin.go, go_end = choice.go.begin() + end.go;
  const uint32_t held = pool.held(number), all = end.row - begin.row;
  const uint32_t stay = all - (end.go - begin.go), in_place = std::min(held, stay);
  if (stay > held) pool.resize(number, stay);
  for (uint32_t row = 0; row < in_place; ++row) pool.note(number, row) = notes[row];
  auto gap = go_begin, gone = std::lower_bound(go_begin, go_end, begin.row + in_place);
  const auto gaps_end = gone;
  uint32_t spare = held;
  for (uint32_t row = in_place; row < all; ++row) {
    if (gone != go_end && *gone == begin.row + row) {
      ++gone;
      continue;
    }
    const uint32_t to = gap != gaps_end ? *gap++ - begin.row : spare++;
    pool.note(number, to) = notes[row];
    if (row >= held) {
      take_fresh(keeping.slot, number, keeping.kept[row - held], to);
      const std::span<float> history = pool.history(number, to);
      std::fill(history.begin(), history.end(), 0.0F);
      if (!history.empty()) enter(keeping, number, row, history);
      continue;
    }
    for (const bool is_v : {false, true})
      std::memcpy(pool.row(number, is_v, to), pool.row(number, is_v, row),
                  store_.shape().row_bytes(is_v));
    std::ranges::copy(pool.history(number, row), pool.history(number, to).begin());
  }
  if (stay < held) pool.resize(number, stay);
}

void ForgetStep::release() {
  store_.own_bytes_ -= std::exchange(bytes_, 0);  // once: commit and destructor call this
  fresh_.clear();
  after_.clear();
  probs_.clear();
  queries_.clear();
  predicted_ = {};
  choices_.clear();
}

}  // namespace kvick::kv
