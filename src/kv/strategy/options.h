#pragma once
// Reading the options of a spec, with one sentence for each way to get them wrong.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "kv/strategy/strategy.h"

namespace kvick::kv {

// Text from outside, fit for an error message: printable, and not longer than a line.
std::string quote(std::string_view text);
// The candidate that was probably meant, or "": at most two letters wrong.
std::string_view closest(std::string_view name, std::span<const std::string_view> candidates);

// "; did you mean NAME?" where one was probably meant, or "".
std::string hint(std::string_view name, std::span<const std::string_view> candidates);
// Error: `name` could not be one word of a spec. what: "strategy" or "policy", for the message.
base::Status<> check_name(std::string_view what, std::string_view name);
// Error: the spec gives an option that is not in `options`.
base::Status<> check_options(const Spec& spec, std::span<const Option> options);

// The option's value, or its fallback.
std::string_view value_of(const Spec& spec, const Option& option);
// The option's value. Error: not a whole number from `least` to `most`.
base::Result<uint64_t> read_number(const Spec& spec, const Option& option, uint64_t least,
                                   uint64_t most);
// In millionths. Error: not a decimal number of at most six places from `least` to `most`, which
// are millionths too.
base::Result<uint64_t> read_decimal(const Spec& spec, const Option& option, uint64_t least,
                                    uint64_t most);
// Error: neither "on" nor "off".
base::Result<bool> read_switch(const Spec& spec, const Option& option);
// Index of the chosen one. Error: none of them.
base::Result<size_t> read_choice(const Spec& spec, const Option& option,
                                 std::initializer_list<std::string_view> choices);

}  // namespace kvick::kv
