#pragma once
// Options that are amounts with a unit: 512MiB, 4GB/s, 2us.

#include "kv/contract/options.h"

namespace kvick::kv {

// Bytes: a number with B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB, or alone.
// Error: not that, or not from `least` to `most`.
base::Result<uint64_t> read_bytes(const Spec& spec, const Option& option, uint64_t least,
                                  uint64_t most);
// Bytes a second: a decimal number with B/s, KB/s, MB/s or GB/s. Error: not that, or
// zero.
base::Result<double> read_rate(const Spec& spec, const Option& option);
// Seconds: a decimal number with ns, us, ms or s. Error: not that.
base::Result<double> read_seconds(const Spec& spec, const Option& option);

}  // namespace kvick::kv
