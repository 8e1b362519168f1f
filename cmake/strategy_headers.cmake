# The headers that a strategy built outside of kvick is compiled against (docs/guides/own-strategy.md), below src/, and
# kv/strategy/interface_id.h, which is made from them: a plugin that was compiled with other ones is refused.
set(KVICK_STRATEGY_HEADERS
  base/check.h base/clock.h base/cores.h base/cpu.h base/function_ref.h base/memory.h base/result.h base/small_vec.h
  base/thread_pool.h
  kernels/attention/attention.h kernels/attention/memory.h kernels/attention/view.h kernels/formats/dtype.h
  kernels/formats/matrix.h kernels/formats/pack_format.h kernels/table/delta_run.h kernels/table/table.h
  kv/contract/facets.h kv/contract/kv.h
  kv/rows/fresh_rows.h kv/rows/layer_rows.h kv/rows/row_block.h kv/rows/row_buffer.h kv/rows/row_store.h
  kv/rows/segment.h
  kv/select/row_arithmetic.h kv/select/selecting.h kv/select/selector.h
  kv/stores/contiguous.h
  kv/strategy/budget.h kv/strategy/checked_step.h kv/strategy/checked_store.h kv/strategy/growth_rates.h
  kv/strategy/model_facts.h kv/strategy/options.h kv/strategy/plugin.h kv/strategy/policy.h kv/strategy/ranges.h
  kv/strategy/selection.h kv/strategy/setup.h kv/strategy/spec.h kv/strategy/strategy.h
  kv/values/aging.h kv/values/batch.h kv/values/hadamard.h kv/values/layer_spec.h kv/values/prefix_watcher.h kv/values/saturating.h kv/values/shape.h
  kv/values/usage.h)

set(KVICK_GENERATED ${PROJECT_BINARY_DIR}/generated)
set(digests "")
foreach(header IN LISTS KVICK_STRATEGY_HEADERS)
  file(SHA256 ${PROJECT_SOURCE_DIR}/src/${header} digest)
  string(APPEND digests ${digest})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${header})
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
file(CONFIGURE OUTPUT ${KVICK_GENERATED}/kv/strategy/interface_id.h CONTENT "#pragma once

#include <cstdint>

namespace kvick::kv {

// Of the headers that strategies are compiled against: another one for every change to them.
inline constexpr uint64_t kInterfaceId = 0x${digest};

}  // namespace kvick::kv
")
