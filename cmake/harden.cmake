# KVICK_HARDEN: what makes a mistake in memory harder to use by who means harm, in the program and its libraries (ADR 64).
# tools/hardening reads in the linked program whether all of it is there. Not with sanitizers, which have their own
# wrappers of what _FORTIFY_SOURCE wraps; tests, which are compiled without optimisation, have none of it.
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT KVICK_SANITIZE AND NOT KVICK_FUZZ)
  set(harden_by_default ON)
else()
  set(harden_by_default OFF)
endif()
option(KVICK_HARDEN "stack protector, checked copies, marks for indirect branches, read-only relocations" ${harden_by_default})
set(KVICK_HARDENING)
if(KVICK_HARDEN)
  # Undefined first: some distributions' compilers have a level of their own. 3 checks lengths that are known only at run time.
  set(KVICK_HARDENING -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong)
  if(KVICK_PROCESSOR STREQUAL x86)
    list(APPEND KVICK_HARDENING -fcf-protection=full)
  endif()
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  # Debian's crt1.o says of itself neither that its indirect branches are marked nor that it leaves return addresses
  # alone, so that the linker says neither of the program. The second is true of it, the first is not: _start has no mark.
  if(KVICK_PROCESSOR STREQUAL x86)
    add_link_options(LINKER:-z,shstk)
  endif()
endif()

# kvick_harden(TARGET): compiles it so.
function(kvick_harden target)
  target_compile_options(${target} PRIVATE ${KVICK_HARDENING})
endfunction()
