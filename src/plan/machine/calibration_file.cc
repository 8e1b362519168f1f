#include "plan/machine/calibration_file.h"

#include <cctype>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text_file.h"

namespace kvick::plan {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Whether a speed may be 0: every machine has some operations (kRefused), but not all.
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

constexpr const char* kTime = "%Y-%m-%dT%H:%M:%SZ";

std::string utc_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, kTime, &utc)};
}

std::optional<int64_t> time_in(const ordered_json& object, const char* key) {
  const auto text = text_in(object, key);
  std::tm utc{};
  const char* end = text ? strptime(text->c_str(), kTime, &utc) : nullptr;
  if (end == nullptr || *end != '\0') return std::nullopt;
  return timegm(&utc);
}

bool is_null(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_null();
}

std::optional<Machine> machine_in(const ordered_json& object) {
  const auto cpu = text_in(object, "cpu"), isa = text_in(object, "isa");
  const auto cores = count_in(object, "cores"), threads = count_in(object, "threads");
  if (!cpu || !isa || !cores || *cores > UINT32_MAX || !threads || *threads > UINT32_MAX)
    return std::nullopt;
  return Machine{.cpu = *cpu,
                 .cores = static_cast<unsigned>(*cores),
                 .isa = *isa,
                 .threads = static_cast<unsigned>(*threads)};
}

std::optional<Moment> moment_in(const ordered_json& object) {
  const auto at = time_in(object, "measured_at"), raised = time_in(object, "raised_at");
  const auto others = speed_in(object, "others_share", Zero::kTaken);
  const auto spread = speed_in(object, "spread", Zero::kTaken);
  if (!at || !spread || *spread > 1) return std::nullopt;
  if (!others && !is_null(object, "others_share")) return std::nullopt;
  if (!raised && !is_null(object, "raised_at")) return std::nullopt;
  if (others.value_or(0) > 1) return std::nullopt;
  return Moment{.at = *at, .others = others, .spread = *spread, .raised_at = raised.value_or(0)};
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
  const Moment& moment = calibration.moment;
  const auto raised =
      moment.raised_at != 0 ? ordered_json(utc_text(moment.raised_at)) : ordered_json();
  return {{"version", kCalibrationVersion},
          {"cpu", calibration.machine.cpu},
          {"cores", calibration.machine.cores},
          {"isa", calibration.machine.isa},
          {"threads", calibration.machine.threads},
          {"measured_at", utc_text(moment.at)},
          {"others_share", share_json(moment.others)},
          {"spread", moment.spread},
          {"raised_at", raised},
          {"read", read},
          {"int8_ops_s", calibration.int8_ops_s},
          {"f32_ops_s", calibration.f32_ops_s},
          {"bf16_ops_s", calibration.bf16_ops_s},
          {"tile_ops_s", calibration.tile_ops_s}};
}

ordered_json share_json(std::optional<double> share) {
  return share ? ordered_json(*share) : ordered_json();
}

std::optional<Calibration> parse_calibration(std::string_view text) {
  const ordered_json object = ordered_json::parse(text, nullptr, false);
  if (!object.is_object() || count_in(object, "version") != uint64_t{kCalibrationVersion})
    return std::nullopt;
  const auto machine = machine_in(object);
  const auto moment = moment_in(object);
  const auto read = read_in(object);
  const auto int8 = speed_in(object, "int8_ops_s"), f32 = speed_in(object, "f32_ops_s");
  const auto bf16 = speed_in(object, "bf16_ops_s", Zero::kTaken);
  const auto tile = speed_in(object, "tile_ops_s", Zero::kTaken);
  if (!machine || !moment || !read || !int8 || !f32 || !bf16 || !tile) return std::nullopt;
  return Calibration{.machine = *machine,
                     .moment = *moment,
                     .read = *read,
                     .int8_ops_s = *int8,
                     .f32_ops_s = *f32,
                     .bf16_ops_s = *bf16,
                     .tile_ops_s = *tile};
}

fs::path calibration_path(const fs::path& folder, const Machine& machine) {
  std::string cpu;  // in lower case, with dashes for all but letters and digits
  for (const char c : machine.cpu) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0)
      cpu += static_cast<char>(std::tolower(letter));
    else if (!cpu.empty() && cpu.back() != '-')
      cpu += '-';
  }
  return folder / fmt::format("calibration-{}-{}-cores-{}-{}-threads.json", cpu, machine.cores,
                              machine.isa, machine.threads);
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
