#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <utility>

namespace kvick::cli {

// An error at run time that is not the user's mistake (network, disk, another program), as one
// sentence for a person. Caught in main; exit status 1.
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// throw failure("{} ended early", url);
template <typename... Args>
Failure failure(fmt::format_string<Args...> format, Args&&... args) {
  return Failure(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kvick::cli
