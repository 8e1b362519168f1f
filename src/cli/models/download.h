#pragma once
// One file over http or https into a PartFile: continued where an earlier run stopped if the server
// still has the same version, tried again where the network fails, refused where what comes cannot
// be the file.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/models/reference.h"
#include "cli/terminal/progress.h"
#include "cli/transfer/part_file.h"

namespace kvick::cli {

struct DownloadOptions {
  unsigned retries = 5;     // attempts in a row that may fail without bringing the file forward
  double retry_wait_s = 1;  // before the first of them; doubles each time, to at most 30
  unsigned timeout_s = 30;  // without a byte (or a connection) before an attempt counts as failed
};

struct DownloadRequest {
  Url url;
  bool hub = false;    // believe the SHA-256 and size that the first answer states
  std::string bearer;  // token for url's host only; empty: none
  std::string sha256;  // expected, lower case; empty: not known
  DownloadOptions options;
};

// Fills the part with the whole file, verified, not yet installed. Error (the user's mistake): no
// such file, no access. Throws Failure: the network, the server, the disk, other bytes than
// expected; the part stays where it can be continued, and is emptied where its bytes are wrong.
base::Status<> download(const DownloadRequest& request, PartFile& part, Progress& progress);

}  // namespace kvick::cli
