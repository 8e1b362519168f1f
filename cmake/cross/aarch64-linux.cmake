# AArch64 Linux from another processor: the preset `arm`, which builds base and kernels with their tests and runs these under
# qemu. The libraries that they need are headers or sources, which Debian's packages of any architecture have: the packages
# in this folder stand for those that CMake would find for the other processor.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
if(NOT CMAKE_CXX_COMPILER)
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
endif()
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)  # for clang, which compiles for all
# QEMU_CPU chooses the processor.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
list(APPEND CMAKE_PREFIX_PATH ${CMAKE_CURRENT_LIST_DIR})
