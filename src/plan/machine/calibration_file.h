#pragma once
// A calibration as JSON, on disk: one file per processor, instruction set and number of threads, so
// that two programs, or two machines with one home folder, never rewrite each other's.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "plan/machine/calibration.h"

namespace kvick::plan {

// Raised when what is measured or how it is written changes; files of another version are not read.
inline constexpr int kCalibrationVersion = 3;

// {version, cpu, cores, isa, threads, measured_at, others_share, spread, raised_at, read: [{bytes,
// bytes_s}], int8_ops_s, f32_ops_s, bf16_ops_s, tile_ops_s}. Times as 2026-11-24T07:52:10Z;
// others_share and raised_at may be null.
nlohmann::ordered_json calibration_json(const Calibration& calibration);
// The inverse. None if the text is no such object, of another version, or holds a number that
// cannot be.
std::optional<Calibration> parse_calibration(std::string_view text);

// A number, or null.
nlohmann::ordered_json share_json(std::optional<double> share);

// Where a machine's calibration is kept in a folder:
// calibration-amd-epyc-family-25-model-17-stepping-1-2-cores-avx512_bf16-2-threads.json.
std::filesystem::path calibration_path(const std::filesystem::path& folder, const Machine& machine);
// None if there is no file, or it is damaged, of another version or of another machine: measure
// again.
std::optional<Calibration> read_calibration(const std::filesystem::path& folder,
                                            const Machine& machine);
// Makes the folder where it is missing; the file appears whole or not at all. Error: what the
// system says.
base::Status<> write_calibration(const std::filesystem::path& folder,
                                 const Calibration& calibration);

}  // namespace kvick::plan
