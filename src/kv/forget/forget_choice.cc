#include "kv/forget/forget_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

void ForgetChoice::reserve(const ForgetRule& rule, size_t rows, size_t heads) {
  notes.reserve(rows);
  go.reserve(rows);
  ends.reserve(heads);
  history.resize(rule.window);
  if (rule.window > 0) sorted.reserve(rows);
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
