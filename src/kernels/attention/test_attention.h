#pragma once
// For tests of attention: every arithmetic that this machine can run.

#include <string>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kernels {

// Table::attend_prompt with tiles in memory; wants AVX-512 with VNNI, BF16 and VBMI.
void fill_rows_emulated(Table& table);

// One instruction set's functions, of those that this machine has. The arithmetic of prompts is one
// more, in place of the other.
struct Set {
  std::string name;
  Table table{};
  double rounding = 0;  // of a logit, relative to the sizes of query and key
  double weights = 0;   // of a probability, relative
};
inline const std::vector<Set>& sets() {
  static const std::vector<Set> kSets = [] {
    std::vector<Set> made;
    for (const base::Isa isa : base::kIsas)
      if (base::isa_supported(isa))
        made.push_back({.name = std::string(base::isa_name(isa)), .table = table(isa)});
#if defined(__x86_64__)
    const bool tiles = base::isa_supported(base::Isa::kAmx);
    if (!tiles &&
        (!base::isa_supported(base::Isa::kAvx512Bf16) || !base::cpu_features().avx512_vbmi))
      return made;
    made.push_back({.name = tiles ? "prompts" : "prompts, emulated",
                    .table = made.back().table,
                    .rounding = 0x1p-17,
                    .weights = 0x1p-8});
    Table& table = made.back().table;
    if (!tiles) fill_rows_emulated(table);
    table.attend_chunk = table.attend_prompt;
#endif
    return made;
  }();
  return kSets;
}

}  // namespace kvick::kernels
