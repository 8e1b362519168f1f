#pragma once
// Files of the tree that are part of the program. src/server/CMakeLists.txt turns each into a .cc.

#include <string_view>

namespace kvick::server {

std::string_view openapi_json();
std::string_view page_html();
std::string_view page_css();
std::string_view page_js();

}  // namespace kvick::server
