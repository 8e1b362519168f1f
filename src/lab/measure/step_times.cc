#include "lab/measure/step_times.h"

#include <algorithm>

#include "engine/eval/speed.h"

namespace kvick::lab {
namespace {

// Steps to compare a growing one with. With only one, other activity on the machine would show.
constexpr uint32_t kCompared = 3;

Interval compared_with(const Interval& growth) {
  return {.first = growth.first + 1, .last = std::min(growth.first + kCompared, growth.last)};
}

double median_of(std::span<const StepTime> times, double StepTime::*part) {
  std::vector<double> values;
  for (const StepTime& time : times) values.push_back(time.*part);
  return engine::median(std::move(values));
}

StepTime median_step(std::span<const StepTime> times) {
  return {.begin = median_of(times, &StepTime::begin),
          .forward = median_of(times, &StepTime::forward),
          .commit = median_of(times, &StepTime::commit)};
}

StepTime plain_step(std::span<const StepTime> times, uint32_t depth) {
  std::vector<StepTime> behind, plain;
  for (const StepTime& time : times) {
    if (time.token <= depth) continue;
    behind.push_back(time);
    if (!time.grew) plain.push_back(time);
  }
  return median_step(plain.empty() ? behind : plain);
}

}  // namespace

std::vector<uint32_t> tokens_to_time(const Served& served, bool compiles, Interval steps) {
  std::vector<uint32_t> tokens = {served.growth.first};
  const Interval compared = compared_with(served.growth);
  for (uint32_t token = compared.first; token <= compared.last; ++token) tokens.push_back(token);
  if (compiles) tokens.push_back(served.product.first);
  for (uint32_t token = steps.first; token <= steps.last; ++token) tokens.push_back(token);
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

StepTime share_of(std::span<const StepTime> times, const Served& served, uint32_t depth) {
  StepTime step = plain_step(times, depth);
  if (const uint32_t tokens = served.growth.tokens(); tokens > 1) {
    const StepTime& grown = step_of(times, served.growth.first);
    const Interval compared = compared_with(served.growth);
    std::vector<StepTime> others;
    for (uint32_t token = compared.first; token <= compared.last; ++token)
      others.push_back(step_of(times, token));
    const StepTime next = median_step(others);
    step.begin += (grown.begin - next.begin) / tokens;
    step.forward += (grown.forward - next.forward) / tokens;
    step.commit += (grown.commit - next.commit) / tokens;
  }
  std::vector<StepTime> compiled;
  for (const StepTime& time : times)
    if (time.compile > 0) compiled.push_back(time);
  step.compile = median_of(compiled, &StepTime::compile) / served.product.tokens();
  return step;
}

const StepTime& step_of(std::span<const StepTime> times, uint32_t token) {
  const auto found = std::find_if(times.begin(), times.end(),
                                  [&](const StepTime& time) { return time.token == token; });
  KVICK_CHECK(found != times.end(), "the step of token {} was not timed", token);
  return *found;
}

}  // namespace kvick::lab
