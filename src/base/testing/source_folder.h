#pragma once

#include <string>

namespace kvick::base {

// Returns the folder of the sources that a test was built from, for the files that it reads. This
// is not a macro in every test: then the tests' objects would differ between clones, and a compiler
// cache would never hit.
std::string source_folder();

}  // namespace kvick::base
