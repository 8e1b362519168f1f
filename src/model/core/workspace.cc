#include "model/core/workspace.h"

#include <algorithm>

namespace kvick::model {
namespace {

// Below about this many floats, a parallel region costs more than the work.
constexpr size_t kWorthwhileFloats = 4096;

// Grows to the exact size, because batches settle on one or two sizes and those of prefill are
// large.
void reserve(base::Buffer& buffer, size_t bytes) {
  if (buffer.size() < bytes) buffer = base::Buffer(bytes);
}

}  // namespace

float* Workspace::floats(Name name, size_t count) {
  reserve(buffers_[name], count * sizeof(float));
  return buffers_[name].as<float>();
}

void Workspace::for_tokens(uint32_t tokens, size_t floats, TokenBody body) {
  pool.parallel_for(tokens, std::max<size_t>(1, kWorthwhileFloats / std::max<size_t>(1, floats)),
                    [&](size_t begin, size_t end, unsigned) {
                      for (size_t t = begin; t < end; ++t) body(static_cast<uint32_t>(t));
                    });
}

void Workspace::convert(RunInputs& in, InputTypes types, kernels::Range tokens,
                        kernels::Range groups) {
  if (types.quantised) kernels.quantise(in.answer, tokens, groups);
  if (types.rounded) kernels.round_inputs(in.answer, tokens, groups);
}

// The tokens of one tile share cache lines. So first each thread prepares its own rows, and then
// each thread converts its own groups of inputs.
void Workspace::convert_tile(RunInputs& in, InputTypes types, TokenBody prepare) {
  const uint32_t tokens = in.run.tokens, groups = in.answer.groups();
  for_tokens(tokens, in.answer.inputs, [&](uint32_t t) { prepare(in.run.first + t); });
  const size_t floats = size_t{tokens} * kernels::kGroup;  // of one group of inputs
  const size_t grain =
      std::max<size_t>(kWorthwhileFloats / floats, (groups + pool.size() - 1) / pool.size());
  pool.parallel_for(groups, grain, [&](size_t begin, size_t end, unsigned) {
    convert(in, types, {0, tokens}, {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  });
}

void Workspace::convert_tiles(RunInputs& in, InputTypes types, TokenBody prepare) {
  const uint32_t tokens = in.run.tokens;
  const uint32_t tiles = (tokens + kernels::kTokenTile - 1) / kernels::kTokenTile;
  pool.parallel_for(tiles, 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t tile = begin; tile < end; ++tile) {
      const auto first = static_cast<uint32_t>(tile) * kernels::kTokenTile;
      const uint32_t last = std::min(tokens, first + kernels::kTokenTile);
      for (uint32_t t = first; t < last; ++t) prepare(in.run.first + t);
      convert(in, types, {first, last}, {0, in.answer.groups()});
    }
  });
}

void Workspace::round_tiles(RunInputs& in, TokenBody prepare) {
  pool.parallel_for(in.prompt.tiles(), 1, [&](size_t begin, size_t end, unsigned) {
    for (auto tile = static_cast<uint32_t>(begin); tile < end; ++tile) {
      const uint32_t first = tile * kernels::kTokenTile;
      const uint32_t last = std::min(in.run.tokens, first + kernels::kTokenTile);
      for (uint32_t t = first; t < last; ++t) prepare(in.run.first + t);
      kernels.round_tile(in.prompt, tile);
    }
  });
}

void Workspace::prepare_run(RunInputs& in, InputTypes types, TokenBody prepare) {
  if (in.run.prompt && types.tiled) return round_tiles(in, prepare);
  if (in.run.prompt || !(types.quantised || types.rounded))
    return for_tokens(in.run.tokens, in.answer.inputs,
                      [&](uint32_t t) { prepare(in.run.first + t); });
  if (in.run.tokens <= kernels::kTokenTile)
    convert_tile(in, types, prepare);
  else
    convert_tiles(in, types, prepare);
}

// For many short runs, as with experts: converts whole tiles of all runs in one parallel region.
void Workspace::prepare_many(InputTypes types, TokenBody prepare) {
  struct Tile {
    size_t run;
    uint32_t first;
  };
  std::vector<Tile> tiles;
  for (size_t r = 0; r < inputs_.size(); ++r)
    for (uint32_t t = 0; t < inputs_[r].run.tokens; t += kernels::kTokenTile)
      tiles.push_back({r, t});
  pool.parallel_for(tiles.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      RunInputs& in = inputs_[tiles[i].run];
      const uint32_t first = tiles[i].first;
      const uint32_t last = std::min(in.run.tokens, first + kernels::kTokenTile);
      for (uint32_t t = first; t < last; ++t) prepare(in.run.first + t);
      if (!in.run.prompt)
        convert(in, types, {first, last}, {0, in.answer.groups()});
      else if (types.tiled)
        kernels.round_tile(in.prompt, first / kernels::kTokenTile);
    }
  });
}

// Gives `a` its part, from element `first` on, of the buffers that all answer runs share.
void Workspace::give_room(kernels::Activations& a, InputTypes types, size_t first) {
  const size_t n = size_t{a.tokens} * a.inputs;
  if (types.quantised) {
    a.q = {q_.as<int8_t>() + first, n};
    a.scale = {scale_.as<float>() + first / kernels::kGroup, n / kernels::kGroup};
    a.sums = {sums_.as<int32_t>() + first / 16, n / 16};
  }
  if (types.rounded) a.rounded = {rounded_.as<uint16_t>() + first, n};
}

std::span<const RunInputs> Workspace::inputs(const float* x, uint32_t inputs,
                                             std::span<const TokenRun> runs, InputTypes types,
                                             TokenBody prepare,
                                             std::span<const kernels::PromptActivations> ready) {
  size_t answers = 0, prompts = 0;
  for (const TokenRun& run : runs) {
    if (!run.prompt) answers += size_t{run.tokens} * inputs;
    if (run.prompt && types.tiled && ready.empty())
      prompts += kernels::PromptActivations::size(run.tokens, inputs);
  }
  if (types.quantised) {
    reserve(q_, answers);
    reserve(scale_, answers / kernels::kGroup * sizeof(float));
    reserve(sums_, answers / 16 * sizeof(int32_t));
  }
  if (types.rounded) reserve(rounded_, answers * sizeof(uint16_t));
  reserve(tiled_, prompts * sizeof(uint16_t));
  inputs_.clear();
  answers = prompts = 0;
  const bool many = ready.empty() && runs.size() > pool.size();
  for (size_t r = 0; r < runs.size(); ++r) {
    const TokenRun& run = runs[r];
    const float* first = x + size_t{run.first} * inputs;
    RunInputs& in = inputs_.emplace_back();
    in.run = run;
    in.answer = {.tokens = run.tokens,
                 .inputs = inputs,
                 .x = first,
                 .q = {},
                 .scale = {},
                 .sums = {},
                 .read_ahead = read_ahead};
    if (run.prompt && !ready.empty()) {
      in.prompt = ready[r];
      continue;
    }
    if (run.prompt) {
      const size_t size = kernels::PromptActivations::size(run.tokens, inputs);
      in.prompt = {.tokens = run.tokens, .inputs = inputs, .x = first, .values = {}};
      if (types.tiled) in.prompt.values = {tiled_.as<uint16_t>() + prompts, size};
      prompts += size;
    } else {
      give_room(in.answer, types, answers);
      answers += size_t{run.tokens} * inputs;
    }
    if (!many) prepare_run(in, types, prepare);
  }
  if (many) prepare_many(types, prepare);
  return inputs_;
}

std::span<kernels::PromptActivations> Workspace::gated(std::span<const TokenRun> runs,
                                                       uint32_t inputs) {
  size_t all = 0;
  for (const TokenRun& run : runs)
    if (run.prompt) all += kernels::PromptActivations::size(run.tokens, inputs);
  reserve(gated_, all * sizeof(uint16_t));
  gated_runs_.clear();
  all = 0;
  for (const TokenRun& run : runs) {
    kernels::PromptActivations& made = gated_runs_.emplace_back();
    if (!run.prompt) continue;
    const size_t size = kernels::PromptActivations::size(run.tokens, inputs);
    made = {.tokens = run.tokens,
            .inputs = inputs,
            .x = nullptr,
            .values = {gated_.as<uint16_t>() + all, size}};
    all += size;
  }
  return gated_runs_;
}

}  // namespace kvick::model
