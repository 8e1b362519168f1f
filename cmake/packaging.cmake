# What is installed beside the program: manual pages, completion scripts, the systemd unit, and what the program is made of
# (an SBOM); and packages of all that: cpack -G DEB and cpack -G TGZ in the build folder.
# As a script it writes what the program says about itself: cmake -DKVICK= -DOUT= -P packaging.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  file(REMOVE_RECURSE ${OUT}/man ${OUT}/completion)
  file(MAKE_DIRECTORY ${OUT}/completion)
  execute_process(COMMAND ${KVICK} man --folder ${OUT}/man COMMAND_ERROR_IS_FATAL ANY)
  foreach(shell bash zsh fish)
    execute_process(COMMAND ${KVICK} completion ${shell} OUTPUT_FILE ${OUT}/completion/${shell} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  return()
endif()

if(KVICK_SANITIZE OR CMAKE_CROSSCOMPILING)
  return()  # the program would have to run here, as it runs elsewhere
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(share ${PROJECT_BINARY_DIR}/share)
set(script ${PROJECT_SOURCE_DIR}/cmake/packaging.cmake)
set(sbom ${PROJECT_SOURCE_DIR}/tools/sbom)
set(packages ${PROJECT_SOURCE_DIR}/scripts/packages.txt)
add_custom_command(OUTPUT ${share}/kvick.cdx.json DEPENDS kvick ${script} ${sbom} ${packages} VERBATIM
  COMMAND ${CMAKE_COMMAND} -DKVICK=$<TARGET_FILE:kvick> -DOUT=${share} -P ${script}
  COMMAND ${Python3_EXECUTABLE} ${sbom} --version ${PROJECT_VERSION} --program $<TARGET_FILE:kvick> --packages ${packages}
    -o ${share}/kvick.cdx.json)
add_custom_target(kvick_share ALL DEPENDS ${share}/kvick.cdx.json)

set(data ${CMAKE_INSTALL_DATAROOTDIR})
install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${share}/completion/bash DESTINATION ${data}/bash-completion/completions RENAME kvick COMPONENT program)
install(FILES ${share}/completion/zsh DESTINATION ${data}/zsh/site-functions RENAME _kvick COMPONENT program)
install(FILES ${share}/completion/fish DESTINATION ${data}/fish/vendor_completions.d RENAME kvick.fish COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/kvick.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/kvick.default DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
install(FILES ${share}/kvick.cdx.json ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)

set(KVICK_MAINTAINER "kvick <kvick@localhost>" CACHE STRING "who is named as the maintainer of Debian packages")
set(CPACK_PACKAGE_CONTACT "${KVICK_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs and serves language models on processors")
set(CPACK_PACKAGE_DESCRIPTION "An inference engine and a server with OpenAI's API for large language models,
which runs on ordinary processors and offers several ways to keep the
key-value cache.")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_PACKAGE_FILE_NAME kvick-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})
if(KVICK_PORTABLE)
  string(APPEND CPACK_PACKAGE_FILE_NAME -portable)
endif()
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
# The program and what belongs to it, not the library and its headers.
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};${PROJECT_NAME};program;/")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/stage.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3-pip)  # fetches the default model; its recommendations are a compiler
set(debian ${PROJECT_SOURCE_DIR}/packaging/debian)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
