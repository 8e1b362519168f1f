#include "engine/kv_options.h"

#include <array>

namespace kvick::engine {
namespace {

// Element types that a cache row may have.
constexpr std::array kTypes = {kernels::DType::kF32, kernels::DType::kF16, kernels::DType::kBF16};

}  // namespace

base::Result<KvOptions> parse_kv_options(std::string_view spec, std::string_view type) {
  KvOptions options;
  if (!spec.empty()) {
    KVICK_TRY(options.spec, kv::parse_spec(spec));
    if (kv::find_strategy(options.spec.name) == nullptr) {
      std::string names;
      for (const kv::Strategy& strategy : kv::strategies())
        names += (names.empty() ? "" : ", ") + std::string(strategy.name);
      return base::fail("unknown cache strategy \"{}\"; there are {}", options.spec.name, names);
    }
  }
  const std::optional<kernels::DType> named = kernels::dtype_from_name(type);
  for (const kernels::DType known : kTypes)
    if (named == known) {
      options.dtype = known;
      return options;
    }
  return base::fail("cache rows of type \"{}\" do not exist; there are f32, f16 and bf16", type);
}

}  // namespace kvick::engine
