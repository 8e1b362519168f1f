# Headers of libraries that many files include, compiled once. nlohmann/json.hpp alone takes a second a file.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
set(KVICK_COMMON_HEADERS
  <algorithm> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstring> <deque> <filesystem> <fmt/format.h>
  <fmt/ranges.h> <fstream> <functional> <map> <memory> <mutex> <nlohmann/json.hpp> <optional> <random> <set> <span>
  <string> <string_view> <thread> <unordered_map> <variant> <vector>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/common_header.cc CONTENT "")
add_library(kvick_common_header STATIC ${CMAKE_BINARY_DIR}/common_header.cc)
target_link_libraries(kvick_common_header PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
kvick_harden(kvick_common_header)
kvick_covered(kvick_common_header)
target_precompile_headers(kvick_common_header PRIVATE ${KVICK_COMMON_HEADERS})

# kvick_precompiled(TARGET): for libraries. The program itself is none: other code (-fPIE) is made for it. Folders below
# plan use little of these headers, so that reading the compiled ones takes as long as it saves.
function(kvick_precompiled target)
  target_precompile_headers(${target} REUSE_FROM kvick_common_header)
endfunction()
