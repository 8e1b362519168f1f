// A shared library that is no plugin.

extern "C" int kvick_nothing() { return 0; }
