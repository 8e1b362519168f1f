# kvick_folder(NAME SOURCES ... LINKS ...): the one library of a folder under src/, with the folders below it.
# kvick_tests(NAME SOURCES ... LINKS ...): the googletest program of a folder, found by ctest.
# kvick_fuzzer(NAME SOURCE LINKS ...): a libFuzzer target, built only in the asan preset.
# The targets `unit_tests` and `fuzzers` are all of either.
add_custom_target(unit_tests)
add_custom_target(fuzzers)

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
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${ARG_LINKS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name}_test PRIVATE KVICK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES LABELS unit)
  add_dependencies(unit_tests ${name}_test)
  # What is tested is optimised; the tests themselves are compiled in half the time.
  target_compile_options(${name}_test PRIVATE $<IF:$<BOOL:${KVICK_SANITIZE}>,-O0,-O1>)
endfunction()

function(kvick_fuzzer name source)
  if(NOT KVICK_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endfunction()
