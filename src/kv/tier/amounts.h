#pragma once
// Reads options that are amounts with a unit: 512MiB, 4GB/s, 2us.

#include "kv/strategy/options.h"

namespace kvick::kv {

// Reads bytes: a number with B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB or no unit.
// Error: another form, or not from `least` to `most`.
base::Result<uint64_t> read_bytes(const Spec& spec, const Option& option, uint64_t least,
                                  uint64_t most);
// Reads bytes per second: a decimal number with B/s, KB/s, MB/s or GB/s. Error: another form, or
// zero.
base::Result<double> read_rate(const Spec& spec, const Option& option);
// Reads seconds: a decimal number with ns, us, ms or s. Error: another form.
base::Result<double> read_seconds(const Spec& spec, const Option& option);

}  // namespace kvick::kv
