// A shared library that is not a plugin.

extern "C" int kvick_nothing() { return 0; }
