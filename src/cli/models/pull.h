#pragma once
// `kvick pull REF`: a model into the cache.

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "cli/models/download.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {

struct PullRequest {
  std::string reference;        // see parse_reference and parse_hub_name
  std::filesystem::path cache;  // see models_dir
  std::string hub = "https://huggingface.co";
  std::string hub_token;  // sent to the hub only; empty: none
  std::string sha256;     // the file must have it; empty: whatever is known of the file decides
  bool force = false;     // fetch again even if it is there
  DownloadOptions download;
};

struct PullResult {
  std::filesystem::path path;  // of the file to open, or of the folder
  uint64_t bytes = 0;          // of all files
  std::string sha256;          // of a single file
  uint64_t resumed_bytes = 0;  // part of bytes that an earlier, interrupted pull had fetched
  bool already_there = false;  // nothing was fetched
};

// Returns when the model is in the cache, whole and verified; a second pull of it at the same time
// waits for the first. Throws Failure for what goes wrong at run time.
base::Result<PullResult> pull(const PullRequest& request, Progress& progress);

}  // namespace kvick::cli
