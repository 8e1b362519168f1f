#pragma once
// `kvick pull REF`: downloads a model into the cache.

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
  std::string sha256;     // expected; empty: the known SHA-256 of the file, if there is one
  bool force = false;     // fetch again even if it is there
  DownloadOptions download;
};

struct PullResult {
  std::filesystem::path path;  // of the file to open, or of the folder
  uint64_t bytes = 0;          // of all files
  std::string sha256;          // of a single file; else empty
  uint64_t resumed_bytes = 0;  // bytes that an earlier, interrupted pull had fetched
  bool already_there = false;  // nothing was fetched
};

// Returns when the model is in the cache, complete and verified. A second pull of the same model
// waits for the first. Throws Failure for errors at run time.
base::Result<PullResult> pull(const PullRequest& request, Progress& progress);

}  // namespace kvick::cli
