#pragma once
// Builds an automaton over characters from pieces.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "text/grammar/char_nfa.h"

namespace kvick::text {

class NfaPieces {
 protected:
  // A part of the automaton. Repetitions copy it.
  struct Piece {
    uint32_t start, end;
    uint32_t first_state;  // its states: from here to the last one when it was made
  };

  bool full() const { return too_large_ || nfa_.states.size() > CharNfa::kMostStates; }
  uint32_t state() {
    nfa_.states.emplace_back();
    return static_cast<uint32_t>(nfa_.states.size() - 1);
  }
  void skip(uint32_t from, uint32_t to) { nfa_.states[from].skips.push_back(to); }
  void loop_any(uint32_t at) { nfa_.states[at].edges.emplace_back(CharSet::all(), at); }
  Piece one_of(CharSet set) {
    const uint32_t start = state(), end = state();
    nfa_.states[start].edges.emplace_back(std::move(set), end);
    return {start, end, start};
  }
  // Adds another automaton as a piece of this one.
  Piece insert(CharNfa other) {
    const auto shift = static_cast<uint32_t>(nfa_.states.size());
    for (CharNfa::State& one : other.states) {
      shift_targets(one, shift);
      nfa_.states.push_back(std::move(one));
    }
    return {other.start + shift, other.end + shift, shift};
  }

  Piece copy(const Piece& piece, uint32_t count) {
    const auto shift = static_cast<uint32_t>(nfa_.states.size()) - piece.first_state;
    for (uint32_t i = 0; i < count; ++i) {
      CharNfa::State one = nfa_.states[piece.first_state + i];
      shift_targets(one, shift);
      nfa_.states.push_back(std::move(one));
    }
    return {piece.start + shift, piece.end + shift, piece.first_state + shift};
  }

  // most: nullopt for any number.
  Piece repeat(const Piece& one, uint32_t least, std::optional<uint32_t> most) {
    const auto size = static_cast<uint32_t>(nfa_.states.size()) - one.first_state;
    const uint32_t count = std::max(least, most.value_or(1));
    std::vector<Piece> pieces = {one};
    while (pieces.size() < count && !full()) {
      too_large_ = nfa_.states.size() + size > CharNfa::kMostStates;
      if (!too_large_) pieces.push_back(copy(one, size));
    }
    pieces.resize(std::min<size_t>(pieces.size(), count), one);
    // Each optional copy can skip directly to the end, so that few states are active in one place.
    const uint32_t start = state(), last = state();
    uint32_t end = start;
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      if (i >= least) skip(end, last);
      skip(end, pieces[i].start);
      end = pieces[i].end;
      if (!most && i + 1 == pieces.size()) skip(end, pieces[i].start);
    }
    skip(end, last);
    return {start, last, one.first_state};
  }

  CharNfa nfa_;

 private:
  static void shift_targets(CharNfa::State& one, uint32_t shift) {
    for (uint32_t& to : one.skips) to += shift;
    for (auto& edge : one.edges) edge.second += shift;
    for (auto& boundary : one.boundaries) boundary.second += shift;
    for (auto& place : one.behind) place.second += shift;
  }

  bool too_large_ = false;  // a repetition would exceed kMostStates
};

}  // namespace kvick::text
