# KVICK_UNITY, which scripts/run sets: the program's own libraries are compiled a few files at a time, in a third of the
# processor time. Not for work on them: a change compiles its whole group, and one file's includes serve another.
if(KVICK_UNITY)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  # What most groups begin with, once for all libraries. The program itself is no library: other code is made for it.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/unity_header.cc CONTENT "")
  add_library(kvick_unity_header STATIC ${CMAKE_BINARY_DIR}/unity_header.cc)
  target_link_libraries(kvick_unity_header PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(kvick_unity_header PRIVATE
    <algorithm> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstring> <deque> <filesystem> <fmt/format.h>
    <fmt/ranges.h> <fstream> <functional> <map> <memory> <mutex> <nlohmann/json.hpp> <optional> <random> <set> <span>
    <string> <string_view> <thread> <unordered_map> <variant> <vector>)
endif()

# kvick_unity(TARGET): groups the target's files so that no two of a group give one name to different things.
function(kvick_unity target)
  if(NOT KVICK_UNITY)
    return()
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "^/|^\\$")
  list(TRANSFORM sources PREPEND ${folder}/)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/unity_groups.py 8 ${sources}
    OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9]+ [^\n]+" groups "${groups}")
  foreach(line IN LISTS groups)
    string(REGEX MATCH "^([0-9]+) (.+)$" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Warnings are for the build of single files: here a local may have the name of another file's function.
  target_compile_options(${target} PRIVATE -w)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    target_precompile_headers(${target} REUSE_FROM kvick_unity_header)
  endif()
endfunction()
