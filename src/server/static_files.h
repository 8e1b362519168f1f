#pragma once
// Files of the tree that are part of the program. src/server/CMakeLists.txt turns each into a .cc.

#include <string_view>

namespace kvick::server {

std::string_view openapi_json();

}  // namespace kvick::server
