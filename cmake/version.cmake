# kvick_version(TARGET): adds to a target the function kvick::cli::program_version(): the number of project(), and the commit
# that is built. KVICK_COMMIT names it where there is no repository, as in a container. The commit is asked for in every
# build, and the target is linked anew only after another commit.
# As a script it writes that function: cmake -DSOURCE= -DVERSION= -DCOMMIT= -DOUT= -P version.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "${COMMIT}")
  if(commit STREQUAL "" AND EXISTS ${SOURCE}/.git)
    # + behind it: with changes that are not committed.
    execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=+ --abbrev=10 --exclude=*
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      set(commit "")
    endif()
  endif()
  set(text "${VERSION}")
  if(NOT commit STREQUAL "")
    string(APPEND text " (commit ${commit})")
  endif()
  file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "cli/terminal/version.h"

namespace kvick::cli {

std::string_view program_version() { return "@text@"; }

}  // namespace kvick::cli
]])
  return()
endif()

set(KVICK_COMMIT "" CACHE STRING "the commit that is built, where git cannot say it")
function(kvick_version target)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/version.cc)
  add_custom_target(${target}_version BYPRODUCTS ${out} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DCOMMIT=${KVICK_COMMIT} -DOUT=${out}
      -P ${PROJECT_SOURCE_DIR}/cmake/version.cmake)
  target_sources(${target} PRIVATE ${out})
  add_dependencies(${target} ${target}_version)
endfunction()
