#include "train/tasks/words.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "io/gguf/gguf_writer.h"

namespace kvick::train {

std::vector<int32_t> words_of(const AnswerData& data) {
  std::vector<double> said(data.vocab);
  for (size_t i = 0; i < data.likeliest.size(); ++i)
    said[static_cast<size_t>(data.likeliest[i])] += static_cast<double>(data.chances[i]);
  std::vector<int32_t> words(data.vocab);
  std::iota(words.begin(), words.end(), 0);
  std::stable_sort(words.begin(), words.end(), [&](int32_t a, int32_t b) {
    return said[static_cast<size_t>(a)] > said[static_cast<size_t>(b)];
  });
  const auto never = std::find_if(words.begin(), words.end(), [&](int32_t word) {
    return said[static_cast<size_t>(word)] == 0;
  });
  words.erase(never, words.end());
  words.resize(std::min(words.size(), kWords));
  return words;
}

void add_words(Vocabulary& vocabulary, const AnswerData& data) {
  io::GgufMetadata pair;
  pair.put("kvick.draft.words", std::span<const int32_t>(words_of(data)));
  vocabulary.bytes += pair.bytes();
  vocabulary.pairs += pair.count();
}

}  // namespace kvick::train
