# Flags of every target. No -march: instruction sets are target regions inside kernels/, chosen at start.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
# g++ 12 sees overlaps in std::string that are not there (GCC bug 105651).
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# One rounding per written operation, so that every instruction set's twin can be compared bit by bit.
add_compile_options(-ffp-contract=off)

if(KVICK_SANITIZE)
  add_compile_options(-fsanitize=${KVICK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVICK_SANITIZE})
  add_compile_definitions(KVICK_SANITIZED)  # g++ and clang have no macro in common that says so
endif()
if(KVICK_FUZZ)
  # Debian's clang 14 with libstdc++ 12: ranges and source_location need these.
  add_compile_options(-Wno-unknown-warning-option)
endif()

find_program(KVICK_CCACHE ccache)
if(KVICK_CCACHE)
  # Paths are hashed from the tree's own folder, so that a second clone finds what the first one compiled; and files that
  # include a precompiled header are kept too.
  # A first build (KVICK_UNITY) looks by the texts of the files alone, so it does not read every header twice.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_PCH_EXTSUM=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
  if(KVICK_UNITY)
    list(APPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_DEPEND=1)
  endif()
  list(APPEND CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/compile_cached ${KVICK_CCACHE})
endif()
find_program(KVICK_MOLD mold)
if(KVICK_MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

# What a fuzz target reports of the code it runs. Not for the kernels and the tests, which no fuzz target is there for and
# which would take longer to compile. Targets that share a precompiled header need the same.
function(kvick_covered target)
  if(KVICK_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
