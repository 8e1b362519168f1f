#include "engine/reuse/reuse_options.h"

#include "kv/registry/registry.h"
#include "kv/strategy/options.h"

namespace kvick::engine {
namespace {

constexpr uint32_t kMostTokens = 1U << 20;
constexpr kv::Option kOptions[] = {
    {.name = "least", .summary = "shortest run of tokens whose rows are reused", .fallback = "64"},
    {.name = "seam",
     .summary = "tokens at the front of a run that are computed again",
     .fallback = "16"}};

}  // namespace

base::Result<ReuseOptions> parse_reuse_options(std::string_view text) {
  if (text == "exact") return ReuseOptions{};
  KVICK_TRY(const kv::Spec spec, kv::parse_spec(text));
  if (spec.name != "shift")
    return base::fail("{} is neither exact nor shift[:least=N,seam=N]", kv::quote(text));
  KVICK_TRY_VOID(kv::check_options(spec, kOptions));
  KVICK_TRY(const uint64_t least, kv::read_number(spec, kOptions[0], 8, kMostTokens));
  KVICK_TRY(const uint64_t seam, kv::read_number(spec, kOptions[1], 0, kMostTokens));
  if (seam >= least)
    return base::fail("shift: seam={} leaves nothing of least={}: it has to be smaller", seam,
                      least);
  return ReuseOptions{
      .shift = true, .least = static_cast<uint32_t>(least), .seam = static_cast<uint32_t>(seam)};
}

}  // namespace kvick::engine
