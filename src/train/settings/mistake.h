#pragma once
// A user's mistake, as one sentence that says what to do. main prints it and exits with 2. It is an
// exception and not base::Result, because this folder is also built without kvick's libraries, and
// libtorch throws anyway (docs/adr/0014-training-apart.md).

#include <sstream>
#include <stdexcept>

namespace kvick::train {

class Mistake : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Mistake(text_of(parts...));
}

}  // namespace kvick::train
