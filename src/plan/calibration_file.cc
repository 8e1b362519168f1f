#include "plan/calibration_file.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/write_file.h"

namespace kvick::plan {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// What no machine is without is faster than 0.
enum class Zero { kRefused, kTaken };
std::optional<double> speed_in(const ordered_json& object, const char* key,
                               Zero zero = Zero::kRefused) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  const double speed = at->get<double>();
  if (!std::isfinite(speed) || speed < 0) return std::nullopt;
  if (speed == 0 && zero == Zero::kRefused) return std::nullopt;
  return speed;
}

std::optional<std::string> text_in(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

std::optional<uint64_t> count_in(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<uint64_t>();
}

std::optional<std::vector<ReadSpeed>> read_in(const ordered_json& object) {
  const auto list = object.find("read");
  if (list == object.end() || !list->is_array() || list->empty()) return std::nullopt;
  std::vector<ReadSpeed> speeds;
  for (const ordered_json& entry : *list) {
    if (!entry.is_object()) return std::nullopt;
    const auto bytes = count_in(entry, "bytes");
    const auto speed = speed_in(entry, "bytes_s");
    if (!bytes || !speed || (!speeds.empty() && *bytes <= speeds.back().bytes)) return std::nullopt;
    speeds.push_back({*bytes, *speed});
  }
  return speeds;
}

}  // namespace

ordered_json calibration_json(const Calibration& calibration) {
  ordered_json read = ordered_json::array();
  for (const ReadSpeed& speed : calibration.read)
    read.push_back({{"bytes", speed.bytes}, {"bytes_s", speed.bytes_s}});
  return {{"version", kCalibrationVersion},
          {"cpu", calibration.machine.cpu},
          {"isa", calibration.machine.isa},
          {"threads", calibration.machine.threads},
          {"read", read},
          {"int8_ops_s", calibration.int8_ops_s},
          {"f32_ops_s", calibration.f32_ops_s},
          {"bf16_ops_s", calibration.bf16_ops_s},
          {"tile_ops_s", calibration.tile_ops_s}};
}

std::optional<Calibration> parse_calibration(std::string_view text) {
  const ordered_json object = ordered_json::parse(text, nullptr, false);
  if (!object.is_object() || count_in(object, "version") != uint64_t{kCalibrationVersion})
    return std::nullopt;
  const auto cpu = text_in(object, "cpu"), isa = text_in(object, "isa");
  const auto threads = count_in(object, "threads");
  const auto read = read_in(object);
  const auto int8 = speed_in(object, "int8_ops_s"), f32 = speed_in(object, "f32_ops_s");
  const auto bf16 = speed_in(object, "bf16_ops_s", Zero::kTaken);
  const auto tile = speed_in(object, "tile_ops_s", Zero::kTaken);
  if (!cpu || !isa || !threads || *threads > UINT32_MAX || !read || !int8 || !f32 || !bf16 || !tile)
    return std::nullopt;
  return Calibration{
      .machine = {.cpu = *cpu, .isa = *isa, .threads = static_cast<unsigned>(*threads)},
      .read = *read,
      .int8_ops_s = *int8,
      .f32_ops_s = *f32,
      .bf16_ops_s = *bf16,
      .tile_ops_s = *tile};
}

fs::path calibration_path(const fs::path& folder, const Machine& machine) {
  return folder / fmt::format("calibration-{}-{}.json", machine.isa, machine.threads);
}

std::optional<Calibration> read_calibration(const fs::path& folder, const Machine& machine) {
  std::ifstream in(calibration_path(folder, machine), std::ios::binary);
  if (!in) return std::nullopt;
  std::optional<Calibration> found =
      parse_calibration(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!found || found->machine != machine) return std::nullopt;
  return found;
}

base::Status<> write_calibration(const fs::path& folder, const Calibration& calibration) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return base::fail("cannot make the folder {}: {}", folder.string(), error.message());
  return base::write_file(
      calibration_path(folder, calibration.machine),
      calibration_json(calibration).dump(2, ' ', false, ordered_json::error_handler_t::replace) +
          "\n");
}

}  // namespace kvick::plan
