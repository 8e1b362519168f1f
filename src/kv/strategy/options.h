#pragma once
// Reads the options of a spec; each kind of mistake has its own error message.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "kv/strategy/strategy.h"

namespace kvick::kv {

// Returns outside text made safe for an error message: printable, at most one line long.
std::string quote(std::string_view text);
// Returns the candidate that was probably meant (at most two wrong letters), or "".
std::string_view closest(std::string_view name, std::span<const std::string_view> candidates);

// Returns "; did you mean NAME?" if a candidate was probably meant, or "".
std::string hint(std::string_view name, std::span<const std::string_view> candidates);
// Error: `name` is not a valid name in a spec. what: "strategy" or "policy", for the message.
base::Status<> check_name(std::string_view what, std::string_view name);
// Error: the spec gives an option that is not in `options`.
base::Status<> check_options(const Spec& spec, std::span<const Option> options);

// Returns the option's value, or its fallback.
std::string_view value_of(const Spec& spec, const Option& option);
// Returns the option's value. Error: not a whole number from `least` to `most`.
base::Result<uint64_t> read_number(const Spec& spec, const Option& option, uint64_t least,
                                   uint64_t most);
// Returns the value in millionths; `least` and `most` are millionths too. Error: not a decimal
// number with at most six decimal places from `least` to `most`.
base::Result<uint64_t> read_decimal(const Spec& spec, const Option& option, uint64_t least,
                                    uint64_t most);
// Error: neither "on" nor "off".
base::Result<bool> read_switch(const Spec& spec, const Option& option);
// Returns the index of the choice given. Error: it is none of them.
base::Result<size_t> read_choice(const Spec& spec, const Option& option,
                                 std::initializer_list<std::string_view> choices);

}  // namespace kvick::kv
