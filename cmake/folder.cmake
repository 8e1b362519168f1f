# kvick_folder(NAME SOURCES ... LINKS ...): the one library of a folder under src/, with the folders below it.
# kvick_tests(NAME SOURCES ... LINKS ...): the googletest program of a folder, found by ctest.
# kvick_fuzzer(NAME SOURCE LINKS ...): a libFuzzer target, built only in the asan preset.
# The targets `unit_tests` and `fuzzers` are all of either.
# What is tested is optimised; the tests themselves are compiled in half the time, unless they are OPTIMISED: those whose
# own twins of the kernels take longer to run than compiling them does.
function(kvick_test_options target)
  if(KVICK_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

if(KVICK_TESTS)
  find_package(GTest REQUIRED)
  # googletest's header and the common ones, once for all tests.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_header.cc CONTENT "int main() {}\n")
  add_executable(kvick_test_header ${CMAKE_BINARY_DIR}/test_header.cc)  # not a library: those are not -fPIE
  target_link_libraries(kvick_test_header PRIVATE GTest::gtest fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(kvick_test_header PRIVATE <gtest/gtest.h> ${KVICK_COMMON_HEADERS})
  kvick_test_options(kvick_test_header)
endif()
add_custom_target(unit_tests)
add_custom_target(fuzzers)

# How far a target is optimised in the release build where it is not -O3: -O2 where tokens do not wait for it, -O1 where
# nothing does. Compiling takes a fifth less with each.
function(kvick_optimise target level)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -O${level})
  endif()
endfunction()

function(kvick_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(kvick_${name} STATIC ${ARG_SOURCES})
  target_include_directories(kvick_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(kvick_${name} PUBLIC ${ARG_LINKS})
  set_property(GLOBAL APPEND PROPERTY KVICK_LIBRARIES kvick_${name})
endfunction()

function(kvick_tests name)
  if(NOT KVICK_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "OPTIMISED" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${ARG_LINKS} kvick_source_folder GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES LABELS unit)
  add_dependencies(unit_tests ${name}_test)
  if(ARG_OPTIMISED)
    kvick_optimise(${name}_test 1)
  else()
    target_precompile_headers(${name}_test REUSE_FROM kvick_test_header)
    kvick_test_options(${name}_test)
  endif()
  set_property(GLOBAL APPEND PROPERTY KVICK_TEST_PROGRAMS ${name}_test)
endfunction()

function(kvick_fuzzer name source)
  if(NOT KVICK_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  add_executable(${name} ${source})
  kvick_covered(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endfunction()
