#pragma once
// CHECK: for bugs in kvick itself, never for input. Throws, so that a server can say what broke and
// a test can see it.

#include <fmt/format.h>
#include <stdexcept>

namespace kvick::base {

// A broken promise between two pieces of kvick. Not caught below main.
class Bug : public std::logic_error {
  using std::logic_error::logic_error;
};

}  // namespace kvick::base

#define KVICK_CHECK(condition, ...)                                                           \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      throw ::kvick::base::Bug(fmt::format("{}:{}: {} does not hold: {}", __FILE__, __LINE__, \
                                           #condition, fmt::format(__VA_ARGS__)));            \
  } while (false)

// KVICK_CHECK_EQ(a, b): says both values.
#define KVICK_CHECK_EQ(a, b) KVICK_CHECK((a) == (b), "{} against {}", (a), (b))
