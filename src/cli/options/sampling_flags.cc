#include "cli/options/sampling_flags.h"

#include <charconv>
#include <random>

namespace kvick::cli {
namespace {

base::Result<std::pair<engine::Token, float>> parse_bias(const std::string& text) {
  const size_t colon = text.find(':');
  engine::Token token = 0;
  float bias = 0;
  const char* end = text.data() + text.size();
  if (colon != std::string::npos) {
    const auto id = std::from_chars(text.data(), text.data() + colon, token);
    const auto value = std::from_chars(text.data() + colon + 1, end, bias);
    if (id.ec == std::errc() && id.ptr == text.data() + colon && value.ec == std::errc() &&
        value.ptr == end)
      return std::pair(token, bias);
  }
  return base::fail("--logit-bias takes TOKEN:BIAS, such as 198:-100 or 42:-inf, not \"{}\"", text);
}

}  // namespace

void add_sampling_flags(const Command& command, SamplingFlags& flags) {
  engine::Sampling& s = flags.sampling;
  const char* group = "Sampling";
  command.add_option("--temp", s.temperature, "temperature; 0 takes the likeliest token")
      .shows_default()
      .in_group(group);
  command.add_option("--top-k", s.top_k, "only the K likeliest tokens; 0: all")
      .shows_default()
      .in_group(group);
  command
      .add_option("--top-p", s.top_p, "only the likeliest tokens that together have probability P")
      .shows_default()
      .in_group(group);
  command.add_option("--min-p", s.min_p, "only tokens at least P times as likely as the likeliest")
      .shows_default()
      .in_group(group);
  command.add_option("--seed", flags.seed, "the same seed gives the same answer (default: random)")
      .in_group(group);
  command.add_option("--repeat-penalty", s.repetition_penalty, "above 1: repeat less")
      .shows_default()
      .in_group(group);
  command.add_option("--presence-penalty", s.presence_penalty, "taken from tokens seen")
      .shows_default()
      .in_group(group);
  command.add_option("--frequency-penalty", s.frequency_penalty, "taken from tokens per time seen")
      .shows_default()
      .in_group(group);
  command.add_option("--penalty-window", s.penalty_window, "last tokens that penalties count")
      .shows_default()
      .in_group(group);
  command
      .add_option("--logit-bias", flags.bias, "TOKEN:BIAS, added to a token's logit (repeatable)")
      .takes_one()
      .in_group(group);
}

base::Result<engine::Sampling> sampling_of(const SamplingFlags& flags) {
  engine::Sampling sampling = flags.sampling;
  sampling.seed = flags.seed ? *flags.seed : std::random_device{}();
  for (const std::string& text : flags.bias) {
    KVICK_TRY(const auto entry, parse_bias(text));
    sampling.logit_bias[entry.first] += entry.second;
  }
  return sampling;
}

}  // namespace kvick::cli
