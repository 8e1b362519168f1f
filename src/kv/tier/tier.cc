#include "kv/tier/tier.h"

#include <algorithm>

#include "base/memory.h"
#include "kv/tier/amounts.h"
#include "kv/tier/tier_file.h"
#include "kv/tier/tier_memory.h"

namespace kvick::kv {
namespace {

// -- options of all tiers --
constexpr Option kFast = {.name = "fast",
                          .summary = "fast memory for what is read and for the newest rows",
                          .fallback = "256MiB"};
constexpr Option kSize = {
    .name = "size", .summary = "most bytes of the tier, by default what is free", .fallback = ""};
constexpr Option kUnit = {.name = "unit",
                          .summary =
                              "tokens of one layer and head that are moved together, auto: "
                              "as many as suit direct I/O",
                          .fallback = "auto"};
constexpr Option kTimeout = {.name = "timeout",
                             .summary = "longest time that a request waits for the tier",
                             .fallback = "30s"};
constexpr Option kCommon[] = {kFast, kSize, kUnit, kTimeout};

// -- options of one kind --
constexpr Option kBandwidth = {
    .name = "bandwidth", .summary = "simulated bandwidth, such as 4GB/s", .fallback = ""};
constexpr Option kLatency = {.name = "latency",
                             .summary = "simulated latency of each transfer, such as 1us",
                             .fallback = "0s"};
constexpr Option kAccess = {
    .name = "access",
    .summary =
        "copy: rows are copied to fast memory when they are needed; load: processors load them "
        "where they are; auto: load where a policy chooses rows",
    .fallback = "auto"};
constexpr Option kRamOptions[] = {kBandwidth, kLatency, kAccess};
constexpr Option kNode = {.name = "node", .summary = "the NUMA node", .fallback = ""};
constexpr Option kNumaOptions[] = {kNode, kAccess};
constexpr Option kDir = {
    .name = "dir", .summary = "a folder, where a file without a name is made", .fallback = ""};
constexpr Option kIo = {.name = "io",
                        .summary =
                            "uring, pread (by threads), or auto (pread where io_uring is "
                            "refused)",
                        .fallback = "auto"};
constexpr Option kDirect = {
    .name = "direct",
    .summary = "bypass the page cache (direct I/O): on, off, or auto (where it works)",
    .fallback = "auto"};
constexpr Option kFileOptions[] = {kDir, kIo, kDirect};

constexpr TierKind kKinds[] = {
    {"ram", "a simulated pool in this machine's memory", kRamOptions},
    {"numa", "memory of another NUMA node, as CXL pools appear", kNumaOptions},
    {"file", "a file, by io_uring", kFileOptions}};

constexpr uint64_t kMostBytes = uint64_t{1} << 48;
constexpr uint64_t kMostUnit = 4096;
constexpr uint64_t kMostNode = 1023;

base::Status<> read_access(const Spec& spec, TierOptions& options) {
  KVICK_TRY(const size_t access, read_choice(spec, kAccess, {"auto", "copy", "load"}));
  options.access = static_cast<TierOptions::Access>(access);
  return base::Done{};
}

base::Status<> read_kind(const Spec& spec, TierOptions& options) {
  if (options.kind != "file") KVICK_TRY_VOID(read_access(spec, options));
  if (options.kind == "ram") {
    if (!value_of(spec, kBandwidth).empty()) {
      KVICK_TRY(options.bytes_s, read_rate(spec, kBandwidth));
    }
    KVICK_TRY(options.latency_s, read_seconds(spec, kLatency));
  } else if (options.kind == "numa") {
    KVICK_TRY(const uint64_t node, read_number(spec, kNode, 0, kMostNode));
    options.node = static_cast<uint32_t>(node);
  } else {
    options.dir = value_of(spec, kDir);
    if (options.dir.empty()) return base::fail("file: needs the folder of a disk: file:dir=PATH");
    KVICK_TRY(const size_t io, read_choice(spec, kIo, {"auto", "uring", "pread"}));
    KVICK_TRY(const size_t direct, read_choice(spec, kDirect, {"auto", "on", "off"}));
    options.io = static_cast<TierOptions::Io>(io);
    options.direct = static_cast<TierOptions::Direct>(direct);
  }
  return base::Done{};
}

}  // namespace

std::span<const TierKind> tier_kinds() { return kKinds; }
std::span<const Option> common_tier_options() { return kCommon; }

base::Result<TierOptions> read_tier(const Spec& spec) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const TierKind& one) { return one.name == spec.name; });
  if (kind == std::end(kKinds)) {
    std::vector<std::string_view> names;
    for (const TierKind& one : kKinds) names.push_back(one.name);
    return base::fail("{} is no tier; there are {}", quote(spec.name), fmt::join(names, ", "));
  }
  std::vector<Option> known;
  for (const Option& option : kind->options) known.push_back(option);
  for (const Option& option : kCommon) known.push_back(option);
  KVICK_TRY_VOID(check_options(spec, known));
  TierOptions options;
  options.kind = spec.name;
  KVICK_TRY(options.fast_bytes, read_bytes(spec, kFast, 1, kMostBytes));
  options.most_bytes = kMostBytes;
  if (!value_of(spec, kSize).empty()) {
    KVICK_TRY(options.most_bytes, read_bytes(spec, kSize, 1, kMostBytes));
  } else if (options.kind == "ram") {
    options.most_bytes = std::min(kMostBytes, base::available_memory_bytes());
  }
  if (value_of(spec, kUnit) != "auto") {
    KVICK_TRY(const uint64_t unit, read_number(spec, kUnit, 1, kMostUnit));
    options.unit_tokens = static_cast<uint32_t>(unit);
  }
  KVICK_TRY(options.timeout_s, read_seconds(spec, kTimeout));
  KVICK_TRY_VOID(read_kind(spec, options));
  return options;
}

base::Result<std::unique_ptr<Tier>> make_tier(const TierOptions& options, size_t unit_bytes) {
  if (options.kind == "ram") return make_ram_tier(options);
  if (options.kind == "numa") return make_numa_tier(options);
  return make_file_tier(options, unit_bytes);
}

}  // namespace kvick::kv
