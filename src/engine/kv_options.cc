#include "engine/kv_options.h"

#include <array>
#include <cctype>

namespace kvick::engine {
namespace {

using base::fail;
using base::Result;
using kernels::DType;

// Element types that a cache row may have.
constexpr std::array kTypes = {DType::kF32, DType::kF16,     DType::kBF16,    DType::kQ8,
                               DType::kQ4,  DType::kStatic8, DType::kStatic16};

std::string lower_name(DType type) {
  std::string name(kernels::dtype_info(type).name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

Result<DType> row_type(std::string_view name) {
  const std::optional<DType> named = kernels::dtype_from_name(name);
  std::string known;
  for (const DType type : kTypes) {
    if (named == type) return type;
    known += (known.empty() ? "" : ", ") + lower_name(type);
  }
  return fail("cache rows of type \"{}\" do not exist; there are {}", name, known);
}

// NAME, or NAME:FILE of a static type.
Result<DType> read_type(std::string_view text, KvOptions& options) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  KVICK_TRY(const DType type, row_type(name));
  const std::string path(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (!kernels::is_static(type) && colon != std::string_view::npos)
    return fail("cache rows of type {} take no file, but {} is given", name, path);
  if (!kernels::is_static(type)) return type;
  if (path.empty())
    return fail("{} needs the file of its ranges: {}:FILE.kvr, which kvick train ranges makes",
                name, name);
  if (!options.ranges_path.empty() && options.ranges_path != path)
    return fail("keys and values have their ranges in one file, but {} and {} are given",
                options.ranges_path, path);
  options.ranges_path = path;
  return type;
}

base::Status<> read_types(std::string_view text, KvOptions& options) {
  // A file's name may hold one too.
  if (text.substr(0, text.find(':')).find('=') == std::string_view::npos) {
    KVICK_TRY(options.k_type, read_type(text, options));
    options.v_type = options.k_type;
    return base::Done{};
  }
  bool seen[2] = {false, false};
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const bool is_v = part.starts_with("v=");
    if (!is_v && !part.starts_with("k="))
      return fail("\"{}\" is no type of keys and values; write q8, or k=q8,v=q4", part);
    if (std::exchange(seen[is_v], true))
      return fail("the type of the {} is given twice", is_v ? "values" : "keys");
    KVICK_TRY((is_v ? options.v_type : options.k_type), read_type(part.substr(2), options));
    if (comma == std::string_view::npos) return base::Done{};
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<KvOptions> parse_kv_options(std::string_view spec, std::string_view type) {
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
  return options;
}

std::string kv_type_text(DType k_type, DType v_type) {
  if (k_type == v_type) return lower_name(k_type);
  return "k=" + lower_name(k_type) + ",v=" + lower_name(v_type);
}

}  // namespace kvick::engine
