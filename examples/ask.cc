// ask MODEL QUESTION: prints the answer of a model while it is generated. This is all of libkvick
// that a program needs.

#include <exception>
#include <iostream>
#include <kvick/kvick.h>
#include <string_view>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: ask MODEL QUESTION\n";
    return 2;
  }
  try {
    kvick::Model model = kvick::Model::open({.path = argv[1], .kv = "virtual"});
    kvick::Generation generation;
    generation.max_tokens = 64;
    generation.temperature = 0;
    generation.on_text = [](std::string_view piece) {
      std::cout << piece << std::flush;
      return true;
    };
    const kvick::Answer answer = model.chat({{"user", argv[2]}}, generation);
    std::cout << "\n[" << answer.tokens.size() << " tokens in " << answer.decode_seconds << " s]\n";
  } catch (const kvick::Error& error) {
    std::cerr << "ask: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "ask: " << error.what() << '\n';
    return 1;
  }
}
