#pragma once
// When what happened to a job, by the clock of its service.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace kvick::engine {

// Its size is fixed: noting a time never fails for want of memory.
struct JobTimes {
  // When a step read a piece of the prompt. The last of kMostPieces stands for all steps from
  // there.
  struct Piece {
    double began = 0, ended = 0;
    uint32_t tokens = 0;
  };
  static constexpr size_t kMostPieces = 16;

  std::optional<double> submitted, started, first_token;  // started: its first step, or loading
  std::array<Piece, kMostPieces> prompt = {};
  size_t pieces = 0;
  // Rows that files or the store had: when the last ones came, and how many tokens' they all were.
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
