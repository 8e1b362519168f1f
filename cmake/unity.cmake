# KVICK_UNITY, which scripts/run sets: the program's own libraries are compiled a few files at a time, in a third of the
# processor time. Not for work on them: a change compiles its whole group, and one file's includes serve another.
if(KVICK_UNITY)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
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
endfunction()
