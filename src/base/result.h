#pragma once
// Result<T, E> holds a value, or the reason why there is none. It is for users' mistakes and for
// lack of memory or slots. Bugs are KVICK_CHECK; failures of the machine are exceptions.

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace kvick::base {

// One sentence for a person: what is wrong, where, and what to do about it. The command line then
// exits with status 2.
struct Error {
  std::string message;
};

template <typename T, typename E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(get()); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &value(); }

  const E& error() const& {
    KVICK_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }
  E&& error() && {
    KVICK_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(std::move(state_));
  }

 private:
  T& get() {
    KVICK_CHECK(ok(), "value of a Result that holds an error");
    return std::get<0>(state_);
  }
  std::variant<T, E> state_;
};

// The result of functions that return no value but may fail.
struct Done {};
template <typename E = Error>
using Status = Result<Done, E>;

// Makes an Error from a format string: return fail("tensor {}: ...", name);
template <typename... Args>
Error fail(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace kvick::base

// KVICK_TRY(auto x, make_x()): x is the value, or the error is returned from the calling function.
#define KVICK_TRY_CONCAT_(a, b) a##b
#define KVICK_TRY_CONCAT(a, b) KVICK_TRY_CONCAT_(a, b)
#define KVICK_TRY_IMPL(temporary, declaration, expression)  \
  auto temporary = (expression);                            \
  if (!temporary.ok()) return std::move(temporary).error(); \
  declaration = std::move(temporary).value()
#define KVICK_TRY(declaration, expression) \
  KVICK_TRY_IMPL(KVICK_TRY_CONCAT(kvick_try_, __LINE__), declaration, expression)
// KVICK_TRY_VOID(check()): like KVICK_TRY, for a Status.
#define KVICK_TRY_VOID(expression)                            \
  do {                                                        \
    if (auto kvick_status = (expression); !kvick_status.ok()) \
      return std::move(kvick_status).error();                 \
  } while (false)
