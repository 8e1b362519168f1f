#include "engine/options/kv_options.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "kv/registry/policies.h"
#include "kv/strategy/options.h"
#include "kv/strategy/selection.h"
#include "kv/tier/tier.h"

namespace kvick::engine {
namespace {

using base::fail;
using base::Result;
using kernels::DType;

// The element types of cache rows.
constexpr std::array kTypes = {DType::kF32, DType::kF16,     DType::kBF16,
                               DType::kQ8,  DType::kQ4,      DType::kQ3,
                               DType::kQ2,  DType::kStatic8, DType::kStatic16};

std::string lower_name(DType type) {
  std::string name(kernels::dtype_info(type).name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// -- rotation: rows are kept as their Hadamard transforms --
constexpr kv::Option kRotate = {
    .name = "rotate",
    .summary = "keep rows as their Hadamard transforms, which quantise better",
    .fallback = ""};

// Types whose quantisation levels are made for rotated rows: they rotate by default.
constexpr bool rotates(DType type) { return type == DType::kQ3 || type == DType::kQ2; }
constexpr bool can_rotate(DType type) {
  return type == DType::kQ8 || type == DType::kQ4 || rotates(type);
}

Result<bool> read_rotate(const kv::Spec& spec, bool standard) {
  if (!spec.options.contains(std::string(kRotate.name))) return standard;
  KVICK_TRY(const size_t chosen, kv::read_choice(spec, kRotate, {"off", "on"}));
  return chosen == 1;
}

// Returns the option's text, to be written after the others. Empty if it is the default, so that
// texts of types from before rotation do not change.
std::string rotate_text(bool rotated, bool standard) {
  if (rotated) return "rotate=on";
  return standard ? "rotate=off" : "";
}

// -- types that change with age: recent rows are f16 --
constexpr kv::Option kWindow = {
    .name = "window", .summary = "newest rows that stay in f16", .fallback = "128"};
constexpr kv::Option kOld = {
    .name = "old", .summary = "the type of rows past the window", .fallback = "q8"};
constexpr kv::Option kMixedOptions[] = {kWindow, kOld, kRotate};
constexpr kv::Option kKiviOptions[] = {kWindow, kRotate};
constexpr DType kOldTypes[] = {DType::kQ8, DType::kQ4, DType::kQ3, DType::kQ2};

Result<uint32_t> read_window(const kv::Spec& spec) {
  KVICK_TRY(const uint64_t window, kv::read_number(spec, kWindow, 0, kv::kMostAgingWindow));
  if (window % kv::kAgingRows != 0)
    return fail(
        "{}: window={} is not a multiple of {}, the number of rows that become old together",
        spec.name, window, kv::kAgingRows);
  return static_cast<uint32_t>(window);
}

Result<kv::Aging> read_mixed(const kv::Spec& spec) {
  KVICK_TRY(const uint32_t window, read_window(spec));
  KVICK_TRY(const size_t old, kv::read_choice(spec, kOld, {"q8", "q4", "q3", "q2"}));
  const DType type = kOldTypes[old];
  return kv::Aging{.k_type = type, .v_type = type, .window = window};
}
Result<kv::Aging> read_kivi4(const kv::Spec& spec) {
  KVICK_TRY(const uint32_t window, read_window(spec));
  return kv::Aging{.k_type = DType::kKivi4K, .v_type = DType::kKivi4V, .window = window};
}

std::string aged_text(const kv::Aging& aging, bool rotated) {
  const std::string rotate = rotate_text(rotated, rotates(aging.k_type));
  const std::string last = rotate.empty() ? "" : "," + rotate;
  if (aging.k_type == DType::kKivi4K) return fmt::format("kivi4:window={}{}", aging.window, last);
  return fmt::format("mixed:window={},old={}{}", aging.window, lower_name(aging.k_type), last);
}

struct AgedType {
  std::string_view name;
  std::span<const kv::Option> options;
  Result<kv::Aging> (*read)(const kv::Spec&);
};
constexpr AgedType kAgedTypes[] = {{"mixed", kMixedOptions, read_mixed},
                                   {"kivi4", kKiviOptions, read_kivi4}};

// Returns the type with which a text begins, whatever options follow.
const AgedType* find_aged(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  for (const AgedType& type : kAgedTypes)
    if (type.name == name) return &type;
  return nullptr;
}

base::Status<> check_type_options(const kv::Spec& spec, std::span<const kv::Option> options) {
  std::vector<std::string_view> known;
  for (const kv::Option& option : options) known.push_back(option.name);
  for (const auto& option : spec.options)
    if (std::find(known.begin(), known.end(), option.first) == known.end())
      return fail("the type {} has no option {}; it has {}", spec.name, kv::quote(option.first),
                  fmt::join(known, ", "));
  return base::Done{};
}

base::Status<> read_aged(const AgedType& type, std::string_view text, KvOptions& options) {
  KVICK_TRY(const kv::Spec spec, kv::parse_spec(text));
  KVICK_TRY_VOID(check_type_options(spec, type.options));
  KVICK_TRY(options.aging, type.read(spec));
  options.k_type = options.v_type = DType::kF16;
  KVICK_TRY(const bool rotated, read_rotate(spec, rotates(options.aging->k_type)));
  options.hadamard = {.k = rotated, .v = rotated};
  return base::Done{};
}

constexpr std::string_view kAutoType = "auto";

Result<DType> row_type(std::string_view name) {
  if (name.substr(0, name.find(':')) == kAutoType)
    return fail("{0} chooses the types of keys and values together: write it alone, --kv-type {0}",
                kAutoType);
  if (const AgedType* aged = find_aged(name))
    return fail("{} is a type of keys and values together: write it alone, --kv-type {}",
                aged->name, aged->name);
  const std::optional<DType> named = kernels::dtype_from_name(name);
  std::string known;
  for (const DType type : kTypes) {
    if (named == type) return type;
    known += lower_name(type) + ", ";
  }
  std::vector<std::string_view> aged;
  for (const AgedType& type : kAgedTypes) aged.push_back(type.name);
  aged.push_back(kAutoType);
  return fail("cache rows of type \"{}\" do not exist; there are {}{}", name, known,
              fmt::join(aged, ", "));
}

struct RowType {
  DType type;
  bool rotated = false;
};

// Parses NAME, NAME:rotate=on or off, or NAME:FILE of a static type.
Result<RowType> read_type(std::string_view text, KvOptions& options) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  KVICK_TRY(const DType type, row_type(name));
  if (can_rotate(type)) {
    KVICK_TRY(const kv::Spec spec, kv::parse_spec(text));
    KVICK_TRY_VOID(check_type_options(spec, {&kRotate, 1}));
    KVICK_TRY(const bool rotated, read_rotate(spec, rotates(type)));
    return RowType{type, rotated};
  }
  const std::string path(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (!kernels::is_static(type) && colon != std::string_view::npos)
    return fail("the type {} has no options, but \"{}\" is given", name, path);
  if (!kernels::is_static(type)) return RowType{type};
  if (path.empty())
    return fail("{} needs the file of its ranges: {}:FILE.kvr, which kvick train ranges makes",
                name, name);
  if (!options.ranges_path.empty() && options.ranges_path != path)
    return fail("keys and values have their ranges in one file, but {} and {} are given",
                options.ranges_path, path);
  options.ranges_path = path;
  return RowType{type};
}

base::Status<> read_each(std::string_view text, KvOptions& options) {
  bool seen[2] = {false, false};
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const bool is_v = part.starts_with("v=");
    if (!is_v && !part.starts_with("k="))
      return fail("\"{}\" is no type of keys and values; write q8, or k=q8,v=q4", part);
    if (std::exchange(seen[is_v], true))
      return fail("the type of the {} is given twice", is_v ? "values" : "keys");
    KVICK_TRY(const RowType given, read_type(part.substr(2), options));
    (is_v ? options.v_type : options.k_type) = given.type;
    (is_v ? options.hadamard.v : options.hadamard.k) = given.rotated;
    if (comma == std::string_view::npos) return base::Done{};
    text.remove_prefix(comma + 1);
  }
}

// -- types that a measurement chooses --
constexpr kv::Option kKl = {.name = "kl",
                            .summary = "how far rows may stray from f16, in nats a token",
                            .fallback = "0.01"};
constexpr kv::Option kFile = {
    .name = "file", .summary = "the measurement, by default beside the model", .fallback = ""};
constexpr kv::Option kAutoOptions[] = {kKl, kFile};
constexpr uint64_t kMillion = 1000000;

Result<AutoType> read_auto_type(std::string_view text) {
  KVICK_TRY(const kv::Spec spec, kv::parse_spec(text));
  KVICK_TRY_VOID(check_type_options(spec, kAutoOptions));
  KVICK_TRY(const uint64_t kl, kv::read_decimal(spec, kKl, 0, 100 * kMillion));
  return AutoType{.kl = static_cast<double>(kl) / kMillion,
                  .path = std::string(kv::value_of(spec, kFile))};
}

// -- the type of states, behind the types of rows --
constexpr std::string_view kState = "state=";

// Removes the type of states from the end of a text, with the comma before it.
base::Status<> take_state_type(std::string_view& text, KvOptions& options) {
  const size_t comma = text.rfind(',');
  const std::string_view last = comma == std::string_view::npos ? text : text.substr(comma + 1);
  if (!last.starts_with(kState)) {
    if (text.starts_with(kState))
      return fail("the type of states comes last: write q8,state=bf16, not \"{}\"", text);
    return base::Done{};
  }
  const std::string_view name = last.substr(kState.size());
  if (name != "f32" && name != "bf16")
    return fail("states of type \"{}\" do not exist; there are f32, bf16", name);
  options.state_type = name == "f32" ? DType::kF32 : DType::kBF16;
  if (comma == 0) return fail("\"{}\" has no type before the comma; write {}", text, last);
  text = text.substr(0, comma == std::string_view::npos ? 0 : comma);
  if (text.starts_with(kState) || text.find(",state=") != std::string_view::npos)
    return fail("the type of states is given twice");
  return base::Done{};
}

base::Status<> read_types(std::string_view text, KvOptions& options) {
  KVICK_TRY_VOID(take_state_type(text, options));
  if (text.empty()) return base::Done{};
  if (text.substr(0, text.find(':')) == kAutoType) {
    KVICK_TRY(options.automatic, read_auto_type(text));
    return base::Done{};
  }
  if (const AgedType* aged = find_aged(text)) return read_aged(*aged, text, options);
  // Looks for '=' before the colon only, since a file's name may contain one too.
  if (text.substr(0, text.find(':')).find('=') != std::string_view::npos)
    return read_each(text, options);
  KVICK_TRY(const RowType given, read_type(text, options));
  options.k_type = options.v_type = given.type;
  options.hadamard = {.k = given.rotated, .v = given.rotated};
  return base::Done{};
}

// The value of --kv-select by which all rows are read, even if the server's own options name a
// policy.
constexpr std::string_view kNoPolicy = "none";

// auto:loss=0.02,policy=quest,... is that policy with its option loss.
constexpr std::string_view kAuto = "auto", kAutoPolicy = "quest";

Result<kv::Spec> read_auto(kv::Spec spec) {
  spec.name = kAutoPolicy;
  if (const auto named = spec.options.extract("policy")) spec.name = named.mapped();
  std::string holding;
  for (const kv::Policy& policy : kv::policies())
    if (std::any_of(policy.options.begin(), policy.options.end(),
                    [](const kv::Option& one) { return one.name == kv::loss_option().name; }))
      holding += (holding.empty() ? "" : ", ") + std::string(policy.name);
  const kv::Policy* const policy = kv::find_policy(spec.name);
  if (policy == nullptr || kv::forgets(spec))
    return fail("auto: policy={} is unknown or has no option loss; use one of {}", spec.name,
                holding);
  if (!spec.options.contains("loss"))
    return fail("auto needs loss=, the share of the attention that may be missed: auto:loss=0.02");
  return spec;
}

Result<kv::Spec> read_policy(std::string_view text) {
  KVICK_TRY(kv::Spec spec, kv::parse_spec(text));
  if (spec.name == kAuto) return read_auto(std::move(spec));
  if (spec.name == kNoPolicy && spec.options.empty()) return spec;
  if (kv::find_policy(spec.name) != nullptr) return spec;
  std::vector<std::string_view> names;
  for (const kv::Policy& policy : kv::policies()) names.push_back(policy.name);
  return fail("unknown policy \"{}\"; there are {}, {}, {}", spec.name, kNoPolicy,
              fmt::join(names, ", "), kAuto);
}

}  // namespace

Result<KvOptions> parse_kv_options(std::string_view spec, std::string_view type,
                                   std::string_view tier, std::string_view select) {
  KvOptions options;
  if (!spec.empty()) {
    KVICK_TRY(options.spec, kv::parse_spec(spec));
    if (kv::find_strategy(options.spec.name) == nullptr) {
      std::string names;
      for (const kv::Strategy& strategy : kv::strategies())
        names += (names.empty() ? "" : ", ") + std::string(strategy.name);
      return fail("unknown cache strategy \"{}\"; there are {}", options.spec.name, names);
    }
  }
  if (!type.empty()) KVICK_TRY_VOID(read_types(type, options));
  if (!tier.empty()) {
    KVICK_TRY(options.tier, kv::parse_spec(tier));
    KVICK_TRY_VOID(kv::read_tier(*options.tier));
  }
  if (!select.empty()) {
    KVICK_TRY(options.select, read_policy(select));
  }
  return options;
}

void KvOptions::take_types(const KvOptions& other) {
  k_type = other.k_type;
  v_type = other.v_type;
  hadamard = other.hadamard;
  aging = other.aging;
  ranges_path = other.ranges_path;
  automatic = other.automatic;
}

bool reads_all(const KvOptions& options) {
  return options.select.name.empty() || options.select.name == kNoPolicy;
}

std::string kv_select_text(const KvOptions& options) {
  return reads_all(options) ? std::string(kNoPolicy) : kv::spec_text(options.select);
}

namespace {

std::string row_type_text(const KvOptions& options, bool files) {
  if (options.automatic)
    return fmt::format("{}:kl={}{}{}", kAutoType, options.automatic->kl,
                       options.automatic->path.empty() ? "" : ",file=", options.automatic->path);
  if (options.aging) return aged_text(*options.aging, options.hadamard.k);
  const auto text_of = [&](DType type, bool rotated) {
    if (files && kernels::is_static(type)) return lower_name(type) + ":" + options.ranges_path;
    const std::string rotate = rotate_text(rotated, rotates(type));
    return lower_name(type) + (rotate.empty() ? "" : ":" + rotate);
  };
  const std::string k = text_of(options.k_type.value_or(DType::kF16), options.hadamard.k);
  const std::string v = text_of(options.v_type.value_or(DType::kF16), options.hadamard.v);
  return k == v ? k : "k=" + k + ",v=" + v;
}

}  // namespace

std::string kv_type_text(const KvOptions& options, bool files) {
  const std::string rows = row_type_text(options, files);
  return options.type_of_states() == DType::kF32 ? rows : rows + ",state=bf16";
}

}  // namespace kvick::engine
