# libkvick: one shared library with the public header's symbols, so that its users need none of kvick's dependencies
# at build time; and the CMake package find_package(kvick) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A plugin of strategies has kvick's functions from the program that loads it.
set(symbols ${PROJECT_SOURCE_DIR}/cmake/plugin_symbols.list)
target_link_options(kvick PRIVATE -Wl,--dynamic-list=${symbols})
set_property(TARGET kvick APPEND PROPERTY LINK_DEPENDS ${symbols})

# Two components: `program`, which is what packages hold (cmake/packaging.cmake), and the library and headers.
set(libraries "")
if(KVICK_PORTABLE)
  set(libraries RUNTIME_DEPENDENCY_SET kvick_libraries)
endif()
install(TARGETS kvick ${libraries} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(KVICK_PORTABLE)
  # The old kind of path, which holds for the libraries of these libraries too.
  target_link_options(kvick PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(kvick PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/kvick")
  install(RUNTIME_DEPENDENCY_SET kvick_libraries
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util|anl|mvec)\\.so"
    LIBRARY DESTINATION lib/kvick COMPONENT program)
  return()  # Debian's archives are made for programs, not for libraries
endif()

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
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(TARGETS kvick_library EXPORT kvickTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kvick DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(header IN LISTS KVICK_STRATEGY_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvick/strategy/${folder})
endforeach()
install(FILES ${KVICK_GENERATED}/kv/strategy/interface_id.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvick/strategy/kv/strategy)
install(EXPORT kvickTargets NAMESPACE kvick:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvick)
set(KVICK_STRATEGY_INCLUDES ${CMAKE_INSTALL_INCLUDEDIR}/kvick/strategy)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kvickConfig.cmake.in ${PROJECT_BINARY_DIR}/kvickConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvick PATH_VARS KVICK_STRATEGY_INCLUDES)
install(FILES ${PROJECT_BINARY_DIR}/kvickConfig.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvick)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvickConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvickConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvick)

if(KVICK_TESTS AND NOT KVICK_SANITIZE)
  add_test(NAME package COMMAND ${CMAKE_COMMAND}
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/examples
    -DWORK=${PROJECT_BINARY_DIR}/package_test -P ${PROJECT_SOURCE_DIR}/tests/package_test.cmake)
  set_tests_properties(package PROPERTIES LABELS package)
  add_test(NAME deb COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DCPACK=${CMAKE_CPACK_COMMAND}
    -DWORK=${PROJECT_BINARY_DIR}/deb_test -P ${PROJECT_SOURCE_DIR}/tests/deb_test.cmake)
  set_tests_properties(deb PROPERTIES LABELS package SKIP_REGULAR_EXPRESSION "skipped: ")
endif()
