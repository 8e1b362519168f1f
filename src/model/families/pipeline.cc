// A model whose layers are on several ranks, one after another (Huang et al. 2019, GPipe). A step
// goes through them in pieces, so that each rank computes one piece while the next rank computes
// the piece before it. Layers are whole, and tokens see only earlier tokens, so all bits are those
// of one process.
// process.

#include <algorithm>
#include <new>

#include "model/families/decoder.h"

namespace kvick::model {
namespace {

// Returns where the piece that begins at `first` ends. Draft trees are not cut.
uint32_t end_of_piece(const Batch& batch, uint32_t first, uint32_t most) {
  uint32_t begin = 0;
  for (const Slot& slot : batch.slots) {
    const uint32_t end = begin + static_cast<uint32_t>(slot.tokens.size());
    const bool cut = end > first + most;
    if (cut && slot.parents.empty()) return first + most;
    if (cut) return begin > first ? begin : end;
    begin = end;
  }
  return begin;
}

// Returns those of the wanted tokens that are in the range.
std::span<const uint32_t> wanted_in(std::span<const uint32_t> wanted, TokenRange range) {
  const auto first = std::ranges::lower_bound(wanted, range.first);
  return {first, std::lower_bound(first, wanted.end(), range.end())};
}

}  // namespace

// Runs one piece. before: [tokens][dim] from the rank before; empty on rank 0. outputs: on the last
// rank, the logits of `wanted`.
void Decoder::run_piece(const Forward& forward, TokenRange range, std::span<const float> before,
                        std::span<const uint32_t> wanted, float* outputs) const {
  Workspace& workspace = forward.workspace;
  const size_t floats = size_t{range.tokens} * config_.dim;
  const auto positions = std::span(forward.positions).subspan(range.first, range.tokens);
  float* hidden = nullptr;
  if (ranks_->leads()) {
    hidden = parts_.input.run(config_, forward.batch, range, positions, workspace);
  } else {
    hidden = workspace.floats(Workspace::kHidden, floats);
    std::ranges::copy(before, hidden);
  }
  run_layers(forward, range, hidden, [&](const Pass& pass, Rest rest) {
    if (is_last()) {
      std::vector<uint32_t> of_piece(wanted.begin(), wanted.end());
      for (uint32_t& token : of_piece) token -= range.first;
      return parts_.head.run(pass, rest, of_piece, outputs);
    }
    const size_t dim = config_.dim;
    float* const y = workspace.floats(Workspace::kNormed, floats);
    workspace.for_tokens(range.tokens, dim,
                         [&](uint32_t t) { add_rest(pass, rest, t, y + t * dim); });
    ranks_->pass_on({.floats = {hidden, floats}, .more = range.end() < forward.batch.tokens()});
  });
}

// Runs all pieces: rank 0 cuts them, other ranks receive them from the rank before. Throws
// RankFailed if that rank could not compute its part. Whatever this throws, nothing more will come
// from that rank. Returns what the last rank passes on: [wanted][outputs], plus one float that
// reports success even if no logits are wanted.
std::span<const float> Decoder::pass_pieces(const Forward& forward,
                                            std::span<const uint32_t> wanted) const {
  const uint32_t tokens = forward.batch.tokens();
  // A state moves from one piece to the next only when the step is committed, so models with states
  // are not cut.
  const bool whole = forward.step.facets().pieces == nullptr ||
                     forward.workspace.library != nullptr || whole_config().keeps_states();
  const uint32_t most = whole ? tokens : piece_tokens(tokens, ranks_->size());
  const size_t floats = wanted.size() * outputs_ + 1;
  float *outputs = nullptr, *next = nullptr;
  TokenRange range;
  for (bool more = true; more; range.first = range.end()) {
    Ranks::Passed before;
    if (ranks_->leads()) {
      range.tokens = end_of_piece(forward.batch, range.first, most) - range.first;
      more = range.end() < tokens;
    } else {
      before = ranks_->take_over();
      more = before.more;
      if (before.floats.empty()) throw RankFailed("a rank could not compute its part of the step");
      range.tokens = static_cast<uint32_t>(before.floats.size() / config_.dim);
    }
    const std::span<const uint32_t> here = wanted_in(wanted, range);
    try {
      if (is_last() && outputs == nullptr)
        outputs = next = forward.workspace.floats(Workspace::kLogits, floats);
      run_piece(forward, range, before.floats, here, next);
    } catch (const RankLost&) {
      throw;
    } catch (...) {
      while (more && !ranks_->leads()) more = ranks_->take_over().more;
      throw;
    }
    if (is_last()) next += here.size() * outputs_;
  }
  if (!is_last()) return {};
  *next = 0;
  return {outputs, floats};
}

void Decoder::compute_stage(const Forward& forward, std::span<const uint32_t> wanted,
                            float* logits) const {
  try {
    const std::span<const float> outputs = pass_pieces(forward, wanted);
    if (is_last()) return ranks_->pass_on({.floats = outputs});
  } catch (const RankLost&) {
    throw;
  } catch (...) {
    ranks_->pass_on({});
    if (ranks_->leads()) ranks_->take_over();
    throw;
  }
  if (!ranks_->leads()) return;
  const std::span<const float> all = ranks_->take_over().floats;
  if (all.empty()) throw RankFailed("a rank could not compute its part of the step");
  KVICK_CHECK_EQ(all.size(), wanted.size() * outputs_ + 1);
  std::copy(all.begin(), all.end() - 1, logits);
}

// In a pipeline, receives and discards what the rank before has computed.
void Decoder::give_up() const {
  if (!pipeline_) return ranks_->give_up();
  try {
    while (!ranks_->leads() && ranks_->take_over().more) {
    }
  } catch (const std::bad_alloc&) {  // all of it was received
  }
  ranks_->pass_on({});
  if (ranks_->leads()) ranks_->take_over();
}

}  // namespace kvick::model
