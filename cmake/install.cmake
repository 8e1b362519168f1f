# libkvick: one shared library with the public header's symbols, so that its users need none of kvick's dependencies
# at build time; and the CMake package find_package(kvick) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(kvick_library SHARED ${PROJECT_SOURCE_DIR}/src/engine/session/kvick.cc)
add_library(kvick::kvick ALIAS kvick_library)
set_target_properties(kvick_library PROPERTIES
  OUTPUT_NAME kvick EXPORT_NAME kvick VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_include_directories(kvick_library PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(kvick_library PUBLIC cxx_std_20)
target_link_libraries(kvick_library PRIVATE kvick_engine)
target_link_options(kvick_library PRIVATE -Wl,--exclude-libs,ALL)

install(TARGETS kvick_library EXPORT kvickTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kvick RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kvick DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT kvickTargets NAMESPACE kvick:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvick
        FILE kvickConfig.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvickConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvickConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvick)

if(KVICK_TESTS AND NOT KVICK_SANITIZE)
  add_test(NAME package COMMAND ${CMAKE_COMMAND}
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/examples
    -DWORK=${PROJECT_BINARY_DIR}/package_test -P ${PROJECT_SOURCE_DIR}/tests/package_test.cmake)
  set_tests_properties(package PROPERTIES LABELS package)
endif()
