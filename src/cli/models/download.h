#pragma once
// Downloads one file by http or https into a PartFile. Continues an earlier run's part if the
// server still has the same version, retries when the network fails, and refuses content that
// cannot be the file.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/models/reference.h"
#include "cli/terminal/progress.h"
#include "cli/transfer/part_file.h"

namespace kvick::cli {

struct DownloadOptions {
  unsigned retries = 5;     // attempts in a row that may fail without progress
  double retry_wait_s = 1;  // before the first retry; doubles each time, up to 30 s
  unsigned timeout_s = 30;  // an attempt fails after this time without a byte or a connection
};

struct DownloadRequest {
  Url url;
  bool hub = false;    // trust the SHA-256 and size that the first response states
  std::string bearer;  // token for url's host only; empty: none
  std::string sha256;  // expected, lower case; empty: not known
  DownloadOptions options;
};

// Fills the part with the whole file and verifies it, but does not install it. Error (the user's
// mistake): no such file, no access. Throws Failure for the network, the server, the disk, or
// unexpected bytes. After a failure the part stays if it can be continued, and is emptied if its
// bytes are wrong.
base::Status<> download(const DownloadRequest& request, PartFile& part, Progress& progress);

}  // namespace kvick::cli
