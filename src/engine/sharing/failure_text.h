#pragma once

#include <exception>
#include <new>
#include <string>

#include "model/ranks/ranks.h"

namespace kvick::engine {

// What an exception says, for whoever's request it ended.
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

// Whether it says that the processes which run the model are no longer all there.
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
