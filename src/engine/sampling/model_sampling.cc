#include "engine/sampling/model_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace kvick::engine {
namespace {

using base::Done;

struct Range {
  double least, most;
};

base::Status<> read(const io::ModelFile& file, const char* name, const Range& range,
                    std::optional<float>& value) {
  const std::string key = std::string("general.sampling.") + name;
  if (!file.metadata().contains(key)) return Done{};
  KVICK_TRY(const double number, file.get_float(key));
  const auto kept = static_cast<float>(number);
  if (!(kept >= range.least && number <= range.most))
    return base::fail(
        "{}: key {} is {}, which cannot be sampled with; it must be at least {} and at most {}",
        file.path(), key, number, static_cast<float>(range.least), range.most);
  value = kept;
  return Done{};
}

}  // namespace

base::Result<ModelSampling> read_model_sampling(const io::ModelFile& file) {
  ModelSampling model;
  std::optional<float> top_k;
  KVICK_TRY_VOID(read(file, "temp", {0, 100}, model.temperature));
  KVICK_TRY_VOID(read(file, "top_k", {-1, INT32_MAX}, top_k));
  KVICK_TRY_VOID(read(file, "top_p", {0, 1}, model.top_p));
  // Some files have 0, for the likeliest token alone. check() refuses 0; the smallest value above
  // it has the same effect.
  if (model.top_p == 0.0F) model.top_p = std::numeric_limits<float>::min();
  KVICK_TRY_VOID(read(file, "min_p", {0, 1}, model.min_p));
  KVICK_TRY_VOID(read(file, "penalty_repeat", {0.01F, 100}, model.repetition_penalty));
  // 0 and -1: all tokens.
  if (top_k) model.top_k = static_cast<uint32_t>(std::max(*top_k, 0.0F));
  return model;
}

void apply_model_sampling(const ModelSampling& model, const GivenSampling& given,
                          Sampling& sampling) {
  const auto put = [](bool was_given, const auto& of_model, auto& value) {
    if (!was_given && of_model) value = *of_model;
  };
  put(given.temperature, model.temperature, sampling.temperature);
  put(given.top_k, model.top_k, sampling.top_k);
  put(given.top_p, model.top_p, sampling.top_p);
  put(given.min_p, model.min_p, sampling.min_p);
  const bool exact = sampling.temperature == 0;
  put(given.repetition_penalty || exact, model.repetition_penalty, sampling.repetition_penalty);
}

}  // namespace kvick::engine
