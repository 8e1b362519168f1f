// The parts of Asio and Beast that need compiling only once; see BOOST_ASIO_SEPARATE_COMPILATION in
// CMakeLists.txt.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
