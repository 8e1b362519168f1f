#include "base/testing/source_folder.h"

namespace kvick::base {

std::string source_folder() { return KVICK_SOURCE_DIR; }

}  // namespace kvick::base
