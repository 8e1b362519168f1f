#include "cli/options/sampling_flags.h"

#include <charconv>
#include <fmt/format.h>
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

void add_dry_flags(const Command& command, SamplingFlags& flags, const char* group) {
  engine::DrySampling& dry = flags.sampling.dry;
  command
      .add_option("--dry-multiplier", dry.multiplier,
                  "DRY: penalty of a token that would continue a repetition; 0: off")
      .shows_default()
      .in_group(group);
  command
      .add_option(
          "--dry-base", dry.base,
          "DRY: the penalty grows by this factor with each repeated token beyond the allowed "
          "length")
      .shows_default()
      .in_group(group);
  command
      .add_option("--dry-allowed-length", dry.allowed_length,
                  "DRY: the shortest repetition that is penalised, in tokens")
      .shows_default()
      .in_group(group);
  command
      .add_option("--dry-penalty-last-n", flags.dry_last,
                  "DRY: how many of the last tokens are searched for repetitions; -1: all")
      .in_range(-1, INT32_MAX)
      .shows_default()
      .in_group(group);
  command
      .add_option("--dry-sequence-breaker", dry.breakers,
                  "DRY: text at which a repetition ends, instead of the default newline, :, \" and "
                  "* (repeatable)")
      .takes_one()
      .in_group(group);
}

void add_mirostat_flags(const Command& command, engine::MirostatSampling& s, const char* group) {
  command
      .add_option(
          "--mirostat", s.version,
          "keep the surprise of tokens near a target, by Mirostat 1 or 2, in place of top-k, "
          "top-p and the other filters; 0: off")
      .in_range(0, 2)
      .shows_default()
      .in_group(group);
  command.add_option("--mirostat-ent", s.tau, "Mirostat's target, tau, in bits per token")
      .shows_default()
      .in_group(group);
  command.add_option("--mirostat-lr", s.eta, "Mirostat's learning rate, eta")
      .shows_default()
      .in_group(group);
}

void add_filter_flags(const Command& command, engine::Sampling& s, const char* group) {
  command
      .add_option("--typical", s.typical_p,
                  "only the tokens whose surprise is nearest to the expected one and that together "
                  "have probability P; 1: all")
      .shows_default()
      .in_group(group);
  command
      .add_option("--top-nsigma", s.top_n_sigma,
                  "only tokens at most N standard deviations below the highest logit; 0: all")
      .shows_default()
      .in_group(group);
  command
      .add_option("--xtc-probability", s.xtc.probability,
                  "XTC: probability that all likely tokens but the least likely of them are left "
                  "out; 0: never")
      .shows_default()
      .in_group(group);
  command
      .add_option("--xtc-threshold", s.xtc.threshold,
                  "XTC: the probability from which a token counts as likely")
      .shows_default()
      .in_group(group);
  command
      .add_option(
          "--dynatemp-range", s.dynatemp_range,
          "the temperature is this much lower where the model is sure of a token, and this much "
          "higher where all are equally likely; 0: fixed")
      .shows_default()
      .in_group(group);
  command
      .add_option(
          "--dynatemp-exp", s.dynatemp_exponent,
          "exponent of the entropy from which the temperature within --dynatemp-range is computed")
      .shows_default()
      .in_group(group);
}

// Adds the flags for which a model's file may have defaults.
void add_model_flags(const Command& command, SamplingFlags& flags, const char* group) {
  engine::Sampling& s = flags.sampling;
  using Given = engine::GivenSampling;
  const auto add = [&](const char* name, auto& value, const std::string& help,
                       bool Given::*member) {
    const std::string text =
        fmt::format("{} (default: what the model's file says, or {})", help, value);
    flags.own.emplace_back(command.add_option(name, value, text), member);
    return flags.own.back().first;
  };
  add("--temp", s.temperature, "temperature; 0 takes the likeliest token", &Given::temperature);
  add("--top-k", s.top_k, "only the K likeliest tokens; 0: all", &Given::top_k).in_group(group);
  add("--top-p", s.top_p, "only the likeliest tokens that together have probability P",
      &Given::top_p)
      .in_group(group);
  add("--min-p", s.min_p, "only tokens at least P times as likely as the likeliest", &Given::min_p)
      .in_group(group);
  add("--repeat-penalty", s.repetition_penalty,
      "above 1: tokens of prompt and answer get less likely", &Given::repetition_penalty)
      .in_group(group);
}

}  // namespace

void add_sampling_flags(const Command& command, SamplingFlags& flags) {
  engine::Sampling& s = flags.sampling;
  const char* group = "Sampling";
  add_model_flags(command, flags, group);
  command.add_option("--seed", flags.seed, "the same seed gives the same answer (default: random)");
  command
      .add_option("--presence-penalty", s.presence_penalty,
                  "subtracted from the logit of each token that the answer already has")
      .shows_default()
      .in_group(group);
  command
      .add_option(
          "--frequency-penalty", s.frequency_penalty,
          "subtracted from a token's logit once for each time that the answer already has it")
      .shows_default()
      .in_group(group);
  command
      .add_option("--penalty-window", s.penalty_window,
                  "how many of the last tokens the penalties look at")
      .shows_default()
      .in_group(group);
  command
      .add_option("--logit-bias", flags.bias, "TOKEN:BIAS, added to a token's logit (repeatable)")
      .takes_one()
      .in_group(group);
  command
      .add_option("--bad-word", flags.bad_words,
                  "text that the answer must not contain (repeatable)")
      .takes_one()
      .in_group(group);
  add_filter_flags(command, s, group);
  add_dry_flags(command, flags, group);
  add_mirostat_flags(command, s.mirostat, group);
}

base::Result<engine::Sampling> sampling_of(const SamplingFlags& flags,
                                           const engine::ModelSampling& model) {
  engine::Sampling sampling = flags.sampling;
  engine::GivenSampling given;
  for (const auto& [option, member] : flags.own) given.*member = option.given();
  engine::apply_model_sampling(model, given, sampling);
  sampling.dry.window = flags.dry_last < 0 ? UINT32_MAX : static_cast<uint32_t>(flags.dry_last);
  if (sampling.dry.any() && sampling.dry.breakers.empty())
    sampling.dry.breakers = engine::default_dry_breakers();
  sampling.seed = flags.seed ? *flags.seed : std::random_device{}();
  for (const std::string& text : flags.bias) {
    KVICK_TRY(const auto entry, parse_bias(text));
    sampling.logit_bias[entry.first] += entry.second;
  }
  return sampling;
}

}  // namespace kvick::cli
