#include "kv/forget/forget_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kv/forget/expected_queries.h"

namespace kvick::kv {
namespace {

// NaN would break the strict order that std::nth_element needs (it would run past its range), so it
// counts as the lowest score.
float score_of(const RowNote& note) {
  return std::isnan(note.mass) ? -std::numeric_limits<float>::infinity() : note.mass;
}

// Whether the first of two rows is dropped before the second.
struct GoesFirst {
  const std::vector<RowNote>& notes;
  bool operator()(uint32_t a, uint32_t b) const {
    const float x = score_of(notes[a]), y = score_of(notes[b]);
    if (x != y) return x < y;
    return notes[a].pos != notes[b].pos ? notes[a].pos < notes[b].pos : a < b;
  }
};

// Takes the best `count` rows of each head out of those that may go.
void spare_best(uint32_t count, ForgetChoice& choice) {
  if (count == 0) return;
  const auto end = choice.go.end();
  auto from = choice.go.begin(), to = from;
  for (const ForgetChoice::End& head : choice.ends) {
    const auto last = std::lower_bound(from, end, head.row);
    const auto worst = from + std::max<ptrdiff_t>(0, (last - from) - ptrdiff_t{count});
    std::nth_element(from, worst, last, GoesFirst{choice.notes});
    for (; from != worst; ++from) *to++ = *from;
    from = last;
  }
  choice.go.erase(to, end);
}

}  // namespace

void ForgetChoice::reserve(const ForgetRule& rule, const Shape& shape, uint64_t rows) {
  notes.reserve(rows);
  go.reserve(rows);
  ends.reserve(rule.together(shape));
  history.resize(rule.window);
  if (rule.window > 0) sorted.reserve(rows);
  if (rule.expects()) floats.resize(expected_scratch(shape, rule.expected, rows));
  bytes = bytes_of(rule, shape, rows);
}

uint64_t ForgetChoice::bytes_of(const ForgetRule& rule, const Shape& shape, uint64_t rows) {
  const uint64_t notes = rule.window > 0 ? 2 : 1;  // sorted too
  uint64_t floats = rule.window;
  if (rule.expects()) floats += expected_scratch(shape, rule.expected, rows);
  return rows * (notes * sizeof(RowNote) + sizeof(uint32_t)) + rule.together(shape) * sizeof(End) +
         floats * sizeof(float);
}

size_t groups_at_once(const ForgetRule& rule, const Shape& shape) {
  return std::max<size_t>(1, kHeadsAtOnce / rule.together(shape));
}

size_t choosers(const ForgetRule& rule, const Setup& setup) {
  const Shape& shape = setup.shape;
  const size_t groups = size_t{shape.layers} * shape.kv_heads / rule.together(shape);
  const bool one = setup.compute.pool == nullptr || groups <= groups_at_once(rule, shape);
  return one ? 1 : setup.compute.pool->size();
}

void smooth(const ForgetRule& rule, uint32_t tokens, ForgetChoice& choice) {
  const uint32_t newest = tokens - rule.recent(tokens), reach = rule.pool / 2;
  auto begin = choice.notes.begin();
  for (const ForgetChoice::End& end : choice.ends) {
    const auto last = choice.notes.begin() + end.row;
    std::vector<RowNote>& sorted = choice.sorted;
    sorted.assign(begin, last);
    std::sort(sorted.begin(), sorted.end(),
              [](const RowNote& a, const RowNote& b) { return a.pos < b.pos; });
    for (; begin != last; ++begin) {
      if (begin->pos >= newest) continue;
      const uint32_t least = begin->pos - std::min(begin->pos, reach);
      auto at = std::lower_bound(sorted.begin(), sorted.end(), least,
                                 [](const RowNote& a, uint32_t pos) { return a.pos < pos; });
      float pooled = rule.averages ? 0 : -std::numeric_limits<float>::infinity();
      for (; at != sorted.end() && at->pos <= begin->pos + reach && at->pos < newest; ++at)
        pooled = rule.averages ? pooled + score_of(*at) : std::max(pooled, score_of(*at));
      begin->mass = pooled;
    }
  }
}

void give_up(const ForgetRule& rule, uint32_t tokens, ForgetChoice& choice) {
  const std::vector<RowNote>& notes = choice.notes;
  std::vector<uint32_t>& go = choice.go;
  const size_t stay = choice.ends.size() * rule.held(tokens), all = notes.size();
  go.clear();
  if (all <= stay) return;
  const uint32_t newest = tokens - rule.recent(tokens);
  for (uint32_t row = 0; row < all; ++row)
    if (notes[row].pos >= rule.selection.sinks && notes[row].pos < newest) go.push_back(row);
  spare_best(rule.spared(tokens), choice);
  const auto gone = static_cast<ptrdiff_t>(all - stay);
  std::nth_element(go.begin(), go.begin() + gone, go.end(), GoesFirst{notes});
  go.resize(all - stay);
  std::sort(go.begin(), go.end());
}

}  // namespace kvick::kv
