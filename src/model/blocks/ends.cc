#include "model/blocks/ends.h"

#include <algorithm>
#include <cmath>

namespace kvick::model {
namespace {

void add_position(const LearnedPositions& positions, const Config& config, uint32_t position,
                  const kernels::Table& kernels, float* row) {
  KVICK_CHECK(position < config.context, "position {} of a context of {}", position,
              config.context);
  std::vector<float> added(config.dim);
  positions.table.row(position + positions.offset, added.data());
  kernels.add(row, added.data(), config.dim);
}

// Returns the final state that run_states has computed for the token; null: it was not requested.
const float* state_of(const Pass& pass, uint32_t token) {
  if (pass.batch.states == nullptr) return nullptr;
  const std::span<const uint32_t> tokens = pass.batch.states->tokens;
  const auto found = std::ranges::lower_bound(tokens, token);
  if (found == tokens.end() || *found != token) return nullptr;
  return pass.batch.states->floats + static_cast<size_t>(found - tokens.begin()) * pass.config.dim;
}

// Applies scale and softcap to one token's logits.
void finish_logits(const Config& config, float* logits, size_t n) {
  if (config.logit_scale != 1)
    for (size_t i = 0; i < n; ++i) logits[i] *= config.logit_scale;
  const float cap = config.logit_softcap;
  if (cap != 0)
    for (size_t i = 0; i < n; ++i) logits[i] = cap * std::tanh(logits[i] / cap);
}

}  // namespace

void check_batch(const Config& config, const Batch& batch) {
  for (const Slot& slot : batch.slots) {
    KVICK_CHECK(!slot.tokens.empty(), "sequence {} adds no token", static_cast<uint32_t>(slot.seq));
    KVICK_CHECK(slot.parents.empty() || slot.parents.size() == slot.tokens.size(),
                "{} parents of {} tokens", slot.parents.size(), slot.tokens.size());
    KVICK_CHECK(slot.role == Role::kAnswer || slot.parents.empty(),
                "a tree of {} tokens of a prompt", slot.tokens.size());
    for (const Token token : slot.tokens)
      KVICK_CHECK(token >= 0 && static_cast<uint32_t>(token) < config.vocab,
                  "token {} of a vocabulary of {}", token, config.vocab);
    for (size_t i = 0; i < slot.parents.size(); ++i)
      KVICK_CHECK(slot.parents[i] >= -1 && slot.parents[i] < static_cast<int32_t>(i),
                  "token {} has parent {}", i, slot.parents[i]);
  }
}

std::vector<uint32_t> positions_of(const Batch& batch) {
  std::vector<uint32_t> result;
  result.reserve(batch.tokens());
  for (const Slot& slot : batch.slots) {
    const size_t first = result.size();
    for (size_t i = 0; i < slot.tokens.size(); ++i) {
      const int32_t parent = slot.parents.empty() ? static_cast<int32_t>(i) - 1 : slot.parents[i];
      result.push_back(parent < 0 ? slot.past : result[first + static_cast<size_t>(parent)] + 1);
    }
  }
  return result;
}

std::vector<const float*> rotations(const Config& config, std::span<const uint32_t> positions,
                                    Workspace& workspace) {
  size_t dims = 0;
  for (const Rope& rope : config.ropes) dims += rope.dims;
  float* const tables = workspace.floats(Workspace::kCosSin, positions.size() * dims);
  std::vector<const float*> result;
  float* next = tables;
  for (const Rope& rope : config.ropes) {
    float* const table = next;
    result.push_back(table);
    next += positions.size() * rope.dims;
    const size_t pairs = rope.frequency.size();
    constexpr size_t kFloats = 32;  // the work of one cosine and sine, in floats touched
    workspace.for_tokens(static_cast<uint32_t>(positions.size()), kFloats * rope.dims,
                         [&](uint32_t t) {
                           float* row = table + size_t{t} * rope.dims;
                           for (size_t i = 0; i < pairs; ++i) {
                             const double angle = positions[t] * rope.frequency[i];
                             row[i] = static_cast<float>(std::cos(angle)) * rope.magnitude;
                             row[pairs + i] = static_cast<float>(std::sin(angle)) * rope.magnitude;
                           }
                         });
  }
  return result;
}

float* Input::run(const Config& config, const Batch& batch, TokenRange range,
                  std::span<const uint32_t> at, Workspace& workspace) const {
  float* const hidden = workspace.floats(Workspace::kHidden, size_t{range.tokens} * config.dim);
  const kernels::Table& kernels = workspace.kernels;
  uint32_t t = 0, of_batch = 0;
  for (const Slot& slot : batch.slots)
    for (uint32_t i = 0; i < slot.tokens.size(); ++i, ++of_batch) {
      if (of_batch < range.first || of_batch >= range.end()) continue;
      float* const row = hidden + size_t{t} * config.dim;
      embedding.row(static_cast<uint32_t>(slot.tokens[i]), row);
      if (config.embedding_scale != 1)
        for (uint32_t d = 0; d < config.dim; ++d) row[d] *= config.embedding_scale;
      if (positions != nullptr) add_position(*positions, config, at[t], kernels, row);
      if (!types.empty()) kernels.add(row, type_row(config, i >= slot.second_text), config.dim);
      norm.apply(kernels, row, config.dim, config.norm_eps, row);
      ++t;
    }
  return hidden;
}

// Models with a single token type use it for both texts.
const float* Input::type_row(const Config& config, bool second) const {
  return types.data() + (second && types.size() > config.dim ? config.dim : 0);
}

// Collects the ranks' logits on rank 0. own: this rank's, [tokens][vocab.size].
void Head::gather(const Pass& pass, const float* own, uint32_t tokens, float* logits) const {
  Ranks& ranks = *pass.ranks;
  const auto most = std::max<uint32_t>(
      1,
      static_cast<uint32_t>(Ranks::kMostGathered / (vocab.whole / ranks.size() + kernels::kPanel)));
  for (uint32_t first = 0; first < tokens; first += most) {
    const uint32_t count = std::min(most, tokens - first);
    const std::span<const float> mine(own + size_t{first} * vocab.size, size_t{count} * vocab.size);
    size_t begin = 0;  // ranks come in the order of their slices of the vocabulary
    const auto place = [&](std::span<const float> floats) {
      const size_t rows = floats.size() / count;
      for (uint32_t i = 0; i < count; ++i)
        std::copy_n(floats.data() + i * rows, rows,
                    logits + size_t{first + i} * vocab.whole + begin);
      begin += rows;
    };
    if (ranks.leads()) place(mine);
    const auto take = [&](unsigned, std::span<const float> floats) { place(floats); };
    ranks.gather(mine, take);
  }
}

// Every rank has the whole state of a token, so this needs no exchange with the other ranks.
void Head::run_states(const Pass& pass, Rest rest) const {
  if (pass.batch.states == nullptr) return;
  const States& states = *pass.batch.states;
  for (const uint32_t token : states.tokens)
    KVICK_CHECK(token < pass.tokens, "the state of token {} of {}", token, pass.tokens);
  const size_t dim = pass.config.dim;
  pass.workspace.for_tokens(static_cast<uint32_t>(states.tokens.size()), dim, [&](uint32_t i) {
    norm_token(pass, rest, norm, states.tokens[i], states.floats + i * dim);
  });
}

void Head::run(const Pass& pass, Rest rest, std::span<const uint32_t> wanted, float* logits) const {
  if (wanted.empty()) return;
  const size_t dim = pass.config.dim;
  float* x = pass.workspace.floats(Workspace::kNormed, wanted.size() * dim);
  for (size_t i = 0; i < wanted.size(); ++i)
    KVICK_CHECK(wanted[i] < pass.tokens && (i == 0 || wanted[i - 1] < wanted[i]),
                "logits of token {} of {}, the one before {}", wanted[i], pass.tokens,
                wanted[i > 0 ? i - 1 : 0]);
  // Adding the rest changes the residual stream, so it happens once per token: here or in
  // run_states.
  const auto prepare = [&](uint32_t i) {
    if (const float* const state = state_of(pass, wanted[i]))
      std::copy_n(state, dim, x + i * dim);
    else
      norm_token(pass, rest, norm, wanted[i], x + i * dim);
  };
  // Uses the arithmetic of answers whatever the token's role: there are few tokens here, and the
  // cost is reading the matrix.
  const auto count = static_cast<uint32_t>(wanted.size());
  const TokenRun run = {.first = 0, .tokens = count};
  const bool alone = pass.ranks == nullptr;
  float* const own =
      alone ? logits : pass.workspace.floats(Workspace::kFfn, wanted.size() * output.w.rows);
  project(pass.workspace, {&run, 1}, x, prepare, {{&output, own}});
  if (!alone) gather(pass, own, count, logits);
}

void Head::finish(const Config& config, Workspace& workspace, uint32_t wanted,
                  float* logits) const {
  if (config.logit_scale == 1 && config.logit_softcap == 0) return;
  const size_t outputs = vocab.all() ? output.w.rows : vocab.whole;
  workspace.for_tokens(wanted, outputs,
                       [&](uint32_t i) { finish_logits(config, logits + i * outputs, outputs); });
}

}  // namespace kvick::model
