#include "io/file/describe.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace kvick::io {
namespace {

using nlohmann::ordered_json;

constexpr size_t kListed = 16, kListedInText = 6;  // elements of an array that are shown
constexpr size_t kTextColumns = 72;

struct Total {
  uint64_t tensors = 0, parameters = 0, bytes = 0;
};
using Totals = std::array<Total, kernels::kWeightTypes>;

Totals totals_of(const ModelFile& file) {
  Totals totals{};
  for (const Tensor& tensor : file.tensors()) {
    Total& total = totals[static_cast<size_t>(tensor.dtype)];
    ++total.tensors;
    total.parameters += tensor.elements();
    total.bytes += tensor.bytes();
  }
  return totals;
}

Total sum_of(const Totals& totals) {
  Total sum;
  for (const Total& total : totals) {
    sum.tensors += total.tensors;
    sum.parameters += total.parameters;
    sum.bytes += total.bytes;
  }
  return sum;
}

std::string_view container_name(Container container) {
  switch (container) {
    case Container::kGguf:
      return "GGUF";
    case Container::kHuggingFace:
      return "Hugging Face folder";
    case Container::kSafetensors:
      return "safetensors";
  }
  return "";
}

// Returns the length of the UTF-8 character that the text begins with; 0 if it is invalid.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char head = byte(0);
  if (head < 0x80) return 1;
  const size_t bytes = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : 2;
  if (head < 0xc2 || head > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and code points above U+10FFFF.
  const bool bad = (head == 0xe0 && byte(1) < 0xa0) || (head == 0xed && byte(1) > 0x9f) ||
                   (head == 0xf0 && byte(1) < 0x90) || (head == 0xf4 && byte(1) > 0x8f);
  return bad ? 0 : bytes;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    out += bytes == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

ordered_json to_json(const Value& value);

template <typename T>
ordered_json element_json(const T& element) {
  if constexpr (std::is_same_v<T, Value>)
    return to_json(element);
  else if constexpr (std::is_same_v<T, std::string>)
    return valid_utf8(element);
  else
    return element;
}

template <typename T>
ordered_json array_json(const std::vector<T>& array) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < std::min(array.size(), kListed); ++i)
    list.push_back(element_json<T>(array[i]));
  if (array.size() <= kListed) return list;
  return {{"length", array.size()}, {"first", std::move(list)}};
}

ordered_json to_json(const Value& value) {
  return std::visit(
      [](const auto& held) -> ordered_json {
        using Held = std::remove_cvref_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<Held>)
          return held;
        else if constexpr (std::is_same_v<Held, std::string>)
          return valid_utf8(held);
        else
          return array_json(held);
      },
      value.data);
}

// Returns JSON for one line of the table, without control characters, cut at a character's end.
std::string one_line(const ordered_json& json, bool more) {
  std::string text = json.dump();
  if (text.size() > kTextColumns) {
    size_t end = kTextColumns;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
    text.resize(end);
    more = true;
  }
  return more ? text + " ..." : text;
}

template <typename T>
std::string array_line(const std::vector<T>& array) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < std::min(array.size(), kListedInText); ++i)
    list.push_back(element_json<T>(array[i]));
  return fmt::format("{} elements: {}", array.size(), one_line(list, array.size() > kListedInText));
}

std::string value_line(const Value& value) {
  return std::visit(
      [&](const auto& held) -> std::string {
        using Held = std::remove_cvref_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<Held> || std::is_same_v<Held, std::string>)
          return one_line(to_json(value), false);
        else
          return array_line(held);
      },
      value.data);
}

std::string human_bytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string printable(std::string_view text) {
  const std::string quoted = ordered_json(valid_utf8(text)).dump();
  return quoted.substr(1, quoted.size() - 2);
}

std::string metadata_text(const ModelFile& file) {
  size_t width = 0;
  for (const auto& [key, value] : file.metadata()) width = std::max(width, key.size());
  width = std::min<size_t>(width, kTextColumns);
  std::string out = fmt::format("\nmetadata ({})\n", file.metadata().size());
  for (const auto& [key, value] : file.metadata())
    out += fmt::format("  {:<{}}  {}\n", printable(key), width, value_line(value));
  return out;
}

std::string tensors_text(const ModelFile& file) {
  size_t width = 4;
  for (const Tensor& tensor : file.tensors()) width = std::max(width, tensor.name.size());
  width = std::min<size_t>(width, kTextColumns);
  std::string out = fmt::format("\ntensors ({})\n", file.tensors().size());
  if (!file.tensors().empty())
    out += fmt::format("  {:<{}}  {:<7}  {:>12}  {}\n", "name", width, "dtype", "bytes", "shape");
  for (const Tensor& tensor : file.tensors())
    out += fmt::format("  {:<{}}  {:<7}  {:>12}  {}\n", printable(tensor.name), width,
                       kernels::dtype_info(tensor.dtype).name, tensor.bytes(),
                       fmt::join(tensor.shape, " x "));
  return out;
}

std::string totals_text(const Totals& totals) {
  std::string out = "\ntotals\n";
  const auto row = [&](std::string_view name, const Total& total) {
    out += fmt::format("  {:<7}  {:>6} tensors  {:>14} parameters  {:>14} bytes  ({})\n", name,
                       total.tensors, total.parameters, total.bytes, human_bytes(total.bytes));
  };
  for (size_t i = 0; i < totals.size(); ++i)
    if (totals[i].tensors != 0)
      row(kernels::dtype_info(static_cast<kernels::DType>(i)).name, totals[i]);
  row("all", sum_of(totals));
  return out;
}

}  // namespace

std::string describe_text(const ModelFile& file) {
  const Totals totals = totals_of(file);
  std::string out =
      fmt::format("file        {}\ncontainer   {}", file.path(), container_name(file.container()));
  if (file.container() == Container::kGguf) out += fmt::format(" version {}", file.version());
  out += fmt::format("\nsize        {} bytes ({})\nparameters  {}\n", file.file_bytes(),
                     human_bytes(file.file_bytes()), sum_of(totals).parameters);
  return out + metadata_text(file) + tensors_text(file) + totals_text(totals);
}

nlohmann::ordered_json describe_json(const ModelFile& file) {
  const Totals totals = totals_of(file);
  const Total sum = sum_of(totals);
  ordered_json out = {{"file", valid_utf8(file.path())},
                      {"container", container_name(file.container())}};
  if (file.container() == Container::kGguf) out["version"] = file.version();
  out["file_bytes"] = file.file_bytes();
  out["parameters"] = sum.parameters;
  out["tensor_bytes"] = sum.bytes;
  ordered_json::object_t metadata;
  // push_back, because operator[] searches all earlier keys: quadratic time for the loop.
  for (const auto& [key, value] : file.metadata())
    metadata.push_back({valid_utf8(key), to_json(value)});
  out["metadata"] = std::move(metadata);
  ordered_json& tensors = out["tensors"] = ordered_json::array();
  for (const Tensor& tensor : file.tensors())
    tensors.push_back({{"name", valid_utf8(tensor.name)},
                       {"dtype", kernels::dtype_info(tensor.dtype).name},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes()}});
  ordered_json& dtypes = out["dtypes"] = ordered_json::object();
  for (size_t i = 0; i < totals.size(); ++i)
    if (totals[i].tensors != 0)
      dtypes[std::string(kernels::dtype_info(static_cast<kernels::DType>(i)).name)] = {
          {"tensors", totals[i].tensors},
          {"parameters", totals[i].parameters},
          {"bytes", totals[i].bytes}};
  return out;
}

}  // namespace kvick::io
