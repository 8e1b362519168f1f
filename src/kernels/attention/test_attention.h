#pragma once
// For tests of attention: every attention kernel that this machine can run.

#include <string>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kernels {

// Fills Table::attend_prompt with tiles emulated in memory. Needs AVX-512 with VNNI, BF16 and VBMI.
void fill_rows_emulated(Table& table);

// The functions of one instruction set of this machine. One more set has attend_prompt in place of
// attend_chunk.
struct Set {
  std::string name;
  Table table{};
  double rounding = 0;  // error of a logit, relative to the norms of query and key
  double weights = 0;   // relative error of a probability
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
