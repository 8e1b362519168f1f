#pragma once
// KVICK_CHECK is for bugs in kvick itself, never for bad input. It throws, so that a server can
// report what failed and a test can observe it.

#include <fmt/format.h>
#include <stdexcept>

namespace kvick::base {

// A bug in kvick: one part broke what another relies on. It is caught only where all exceptions
// are, which then end a request, a step or the program.
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

// KVICK_CHECK_EQ(a, b): the message contains both values.
#define KVICK_CHECK_EQ(a, b) KVICK_CHECK((a) == (b), "{} against {}", (a), (b))
