# kvick_embed(TARGET FILE FUNCTION): adds to a target the function std::string_view kvick::server::FUNCTION(), which
# returns the file's bytes.  As a script it writes that function: cmake -DFILE= -DFUNCTION= -DOUT= -P embed.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${FILE} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  # As numbers: a string literal may be cut at 64 KiB, and what follows \x in one may be taken for digits.
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  file(WRITE ${OUT} "#include <string_view>\n\nnamespace kvick::server {\n\nstd::string_view ${FUNCTION}();\n\n"
    "std::string_view ${FUNCTION}() {\n  static constexpr unsigned char kBytes[] = {${bytes}0};\n"
    "  return {reinterpret_cast<const char*>(kBytes), ${size}};\n}\n\n}  // namespace kvick::server\n")
  return()
endif()

function(kvick_embed target file function)
  set(in ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(OUTPUT ${out} DEPENDS ${in} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFILE=${in} -DFUNCTION=${function} -DOUT=${out} -P ${script})
  target_sources(${target} PRIVATE ${out})
endfunction()
