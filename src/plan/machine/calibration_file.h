#pragma once
// Calibrations as JSON files: one file per processor, instruction set and number of threads, so
// that two programs, or two machines with one home folder, never overwrite each other's.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "plan/machine/calibration.h"

namespace kvick::plan {

// Raise it when the measurement or the format changes: files of other versions are not read.
inline constexpr int kCalibrationVersion = 3;

// Returns {version, cpu, cores, isa, threads, measured_at, others_share, spread, raised_at, read:
// [{bytes, bytes_s}], int8_ops_s, f32_ops_s, bf16_ops_s, tile_ops_s}. Times look like
// 2026-11-24T07:52:10Z; others_share and raised_at may be null.
nlohmann::ordered_json calibration_json(const Calibration& calibration);
// The inverse. Returns none if the text is not such an object, has another version, or has an
// impossible number.
std::optional<Calibration> parse_calibration(std::string_view text);

// Returns a number, or null.
nlohmann::ordered_json share_json(std::optional<double> share);

// Returns the path of a machine's calibration in a folder, such as
// calibration-amd-epyc-family-25-model-17-stepping-1-2-cores-avx512_bf16-2-threads.json.
std::filesystem::path calibration_path(const std::filesystem::path& folder, const Machine& machine);
// Returns none if there is no file, or it is damaged, of another version or of another machine:
// then measure again.
std::optional<Calibration> read_calibration(const std::filesystem::path& folder,
                                            const Machine& machine);
// Writes the file, which appears whole or not at all, and makes the folder if it is missing. Error:
// the system's message.
base::Status<> write_calibration(const std::filesystem::path& folder,
                                 const Calibration& calibration);

}  // namespace kvick::plan
