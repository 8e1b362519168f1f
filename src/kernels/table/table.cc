#include "kernels/table/table.h"

#include <cstdlib>

namespace kvick::kernels {

using base::Isa;

base::Result<Isa> choose_isa() {
  const char* name = std::getenv("KVICK_ISA");
  if (name == nullptr || *name == '\0') return base::best_isa();
  const std::optional<Isa> isa = base::isa_from_name(name);
  if (!isa) return base::fail("KVICK_ISA is \"{}\": use {}", name, base::isa_names());
  if (!base::isa_supported(*isa))
    return base::fail(
        "KVICK_ISA is {}, which this processor or its operating system does not support: use {} or "
        "unset it",
        name, base::isa_name(base::best_isa()));
  return *isa;
}

}  // namespace kvick::kernels
