#pragma once

#include <string>

namespace kvick::base {

/// The folder of the sources that a test was built from, for the files it reads. Not a macro of
/// every test: their objects would then differ from one clone to the next, and a compiler cache
/// would find none.
std::string source_folder();

}  // namespace kvick::base
