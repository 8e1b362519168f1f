# KVICK_PORTABLE: a program for other distributions than the one that it is built on. What Debian has as .a and no other library
# uses is linked in; the other libraries are installed into lib/kvick beside the program, but for those of glibc. What is left is
# glibc's version, which is that of the machine that builds: tools/glibc_needs says it (ADR 45).
option(KVICK_PORTABLE "link and install what other distributions may not have" OFF)
option(KVICK_MPI "run one model in several processes (--ranks), where Open MPI is" ON)
option(KVICK_ONEDNN "attention by oneDNN's products (--attn bmm)" ON)
if(NOT KVICK_PORTABLE)
  return()
endif()
if(KVICK_PYTHON)
  return()  # a module cannot take in Debian's archives, which are made for programs
endif()
# Their .a need further libraries that Debian has no .a of. OpenSSL is that of libcurl: with a second copy linked in, libcurl
# would find some of its functions in one and some in the other. The same holds for libstdc++, which fmt and simdjson use.
find_library(CURL_LIBRARY_RELEASE NAMES curl)
find_library(OPENSSL_SSL_LIBRARY NAMES ssl)
find_library(OPENSSL_CRYPTO_LIBRARY NAMES crypto)
find_library(pkgcfg_lib_LIBZMQ_zmq NAMES zmq)
find_library(pkgcfg_lib_LIBEDIT_edit NAMES edit)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
# Named by these words where they are linked, which would be the shared ones.
foreach(name pcre2-8 utf8proc xxhash)
  find_library(KVICK_ARCHIVE_${name} NAMES ${name} REQUIRED)
  add_library(${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${KVICK_ARCHIVE_${name}})
endforeach()
