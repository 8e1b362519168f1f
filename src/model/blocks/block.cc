#include "model/blocks/block.h"

#include <algorithm>

namespace kvick::model {

std::string BlockReader::name(std::string_view tensor) const {
  return fmt::format("blk.{}.{}", share.first_layer + named.value_or(layer), tensor);
}

base::Result<Linear> BlockReader::linear(std::string_view tensor, Slice outputs, Slice inputs,
                                         WeightReader::Bias bias) const {
  return weights.linear(name(tensor), outputs, inputs, bias);
}

base::Result<Linear> BlockReader::linear_back(std::string_view tensor, Slice inputs,
                                              WeightReader::Bias bias) const {
  return linear(tensor, config.dim, inputs,
                share.adds_biases ? bias : WeightReader::Bias::kElsewhere);
}

base::Result<Norm> BlockReader::norm(std::string_view tensor) const {
  if (tensor.empty()) return Norm{};
  return read_norm(weights, name(tensor), config.dim, norms);
}

base::Result<BlockNorms> BlockReader::norms_of(const NormNames& names) const {
  BlockNorms all;
  KVICK_TRY(all.before, norm(names.before));
  KVICK_TRY(all.after, norm(names.after));
  KVICK_TRY(all.sum, norm(names.sum));
  if (!names.second_sum.empty() && has(fmt::format("{}.weight", names.second_sum))) {
    KVICK_TRY(all.second_sum, norm(names.second_sum));
  }
  return all;
}

namespace {

void add_output(const Pass& pass, Rest rest, uint32_t token, float* y) {
  const Config& config = pass.config;
  const kernels::Table& kernels = pass.workspace.kernels;
  const size_t dim = config.dim;
  float* const hidden = pass.hidden + token * dim;
  const float* added = rest.y + token * dim;
  if (rest.norm != nullptr) {
    rest.norm->apply(kernels, added, dim, config.norm_eps, y);
    added = y;
  }
  if (rest.second_norm != nullptr) std::copy_n(hidden, dim, y);
  if (config.residual_scale == 1)
    kernels.add(hidden, added, dim);
  else
    kernels.axpy(hidden, config.residual_scale, added, dim);
  if (rest.sum_norm != nullptr) rest.sum_norm->apply(kernels, hidden, dim, config.norm_eps, hidden);
  if (rest.second_norm == nullptr) return;
  kernels.add(hidden, y, dim);
  rest.second_norm->apply(kernels, hidden, dim, config.norm_eps, hidden);
}

}  // namespace

void add_rest(const Pass& pass, Rest rest, uint32_t token, float* y) {
  if (rest.y != nullptr) add_output(pass, rest, token, y);
  if (rest.scale == 1) return;
  const size_t dim = pass.config.dim;
  float* const hidden = pass.hidden + token * dim;
  for (size_t i = 0; i < dim; ++i) hidden[i] *= rest.scale;
}

void norm_token(const Pass& pass, Rest rest, const Norm& norm, uint32_t token, float* y) {
  add_rest(pass, rest, token, y);
  const size_t dim = pass.config.dim;
  norm.apply(pass.workspace.kernels, pass.hidden + token * dim, dim, pass.config.norm_eps, y);
}

void project_normed(const Pass& pass, Rest rest, const Norm& norm,
                    std::initializer_list<Output> outputs) {
  const size_t dim = pass.config.dim;
  float* y = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
  const auto prepare = [&](uint32_t t) { norm_token(pass, rest, norm, t, y + t * dim); };
  project(pass.workspace, pass.runs, y, prepare, outputs);
}

void write_rows(const Pass& pass, uint32_t layer, const float* k, const float* v) {
  if (pass.tokens == pass.batch.tokens()) return pass.step.write(layer, k, v);
  kv::PieceWriter* const pieces = pass.step.facets().pieces;
  KVICK_CHECK(pieces != nullptr, "{} of {} tokens of a step that takes all at once", pass.tokens,
              pass.batch.tokens());
  pieces->write_piece(layer, pass.first, pass.tokens, k, v);
}

float* room_for_output(const Pass& pass) {
  const size_t floats = size_t{pass.tokens} * pass.config.dim;
  return pass.ranks != nullptr ? pass.ranks->part(floats)
                               : pass.workspace.floats(Workspace::kProjected, floats);
}

const float* sum_of_ranks(const Pass& pass, const float* own) {
  return pass.ranks != nullptr ? pass.ranks->sum() : own;
}

const float* project_back(const Pass& pass, const float* x, Workspace::TokenBody prepare,
                          const Linear& linear) {
  float* const y = room_for_output(pass);
  project(pass.workspace, pass.runs, x, prepare, {{&linear, y}});
  return sum_of_ranks(pass, y);
}

}  // namespace kvick::model
