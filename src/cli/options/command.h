#pragma once

namespace kvick::cli {

// Options that every command takes.
struct Common {
  bool json = false;   // exactly one JSON object on stdout; everything else on stderr
  bool quiet = false;  // no progress and no notes; errors are still printed
};

}  // namespace kvick::cli
