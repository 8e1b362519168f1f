# Debian's headers, which are all of it.
if(NOT TARGET fmt::fmt)
  add_library(fmt::fmt INTERFACE IMPORTED)
  target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
  # Inlined, g++ 12 sees writes in front of an array that are not there.
  target_compile_options(fmt::fmt INTERFACE -Wno-array-bounds)
endif()
