#pragma once
// Times of a job's events, in seconds of its service's clock.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace kvick::engine {

// Has a fixed size, so that recording a time never fails for lack of memory.
struct JobTimes {
  // When a step read a piece of the prompt. The last of kMostPieces stands for all later steps too.
  struct Piece {
    double began = 0, ended = 0;
    uint32_t tokens = 0;
  };
  static constexpr size_t kMostPieces = 16;

  std::optional<double> submitted, started, first_token;  // started: when it was first admitted
  std::array<Piece, kMostPieces> prompt = {};
  size_t pieces = 0;
  // Rows that came from files or the store: from the first load's begin to the last one's end, with
  // the tokens of all loads.
  std::optional<Piece> loaded;
  uint32_t preemptions = 0;

  void read(double began, double ended, uint32_t tokens) {
    if (pieces < kMostPieces) prompt[pieces++] = {.began = began};
    Piece& piece = prompt[pieces - 1];
    piece.ended = ended;
    piece.tokens += tokens;
  }
  void load(double began, double ended, uint32_t tokens) {
    if (!loaded) loaded = Piece{.began = began};
    loaded->ended = ended;
    loaded->tokens += tokens;
  }
};

}  // namespace kvick::engine
