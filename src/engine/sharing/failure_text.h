#pragma once

#include <exception>
#include <new>
#include <string>

#include "model/ranks/ranks.h"

namespace kvick::engine {

// Returns the message of an exception, for the request that it ended.
inline std::string failure_text(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const std::bad_alloc&) {
    return "the machine has no more memory";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "of an unknown kind";
  }
}

// Returns whether the exception says that a process that runs a part of the model is gone.
inline bool is_lost_rank(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const model::RankLost&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace kvick::engine
