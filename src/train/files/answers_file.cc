#include "train/files/answers_file.h"

#include <algorithm>

#include "train/files/binary_file.h"
#include "train/settings/mistake.h"

namespace kvick::train {
namespace {

constexpr std::string_view kMagic = "kvick answers 1\n";

void check(const AnswerData& data, const std::string& path) {
  const uint64_t tokens = data.tokens.size(), entries = tokens * data.top;
  if (data.top == 0 || data.likeliest.size() != entries || data.chances.size() != entries)
    refuse(path, ": has ", data.likeliest.size(), " likely tokens where ", tokens, " tokens have ",
           data.top, " each");
  const bool ends_grow = std::is_sorted(data.ends.begin(), data.ends.end());
  if (!ends_grow || (data.ends.empty() ? 0 : data.ends.back()) != tokens)
    refuse(path, ": its sequences do not make up its ", tokens, " tokens");
  for (const std::vector<int32_t>* list : {&data.tokens, &data.likeliest})
    for (const int32_t token : *list)
      if (token < 0 || static_cast<uint32_t>(token) >= data.vocab)
        refuse(path, ": holds token ", token, " of a vocabulary of ", data.vocab);
  for (const float chance : data.chances)
    if (!(chance >= 0 && chance <= 1)) refuse(path, ": holds a probability of ", chance);
}

}  // namespace

void write_answers(const std::string& path, const AnswerData& data) {
  BinaryWriter out(path);
  out.raw(kMagic.data(), kMagic.size());
  out.number(data.vocab);
  out.number(data.vocabulary.pairs);
  out.string(data.vocabulary.bytes);
  out.number(data.top);
  out.list(data.ends);
  out.list(data.tokens);
  out.list(data.likeliest);
  out.list(data.chances);
  out.finish();
}

AnswerData read_answers(const std::string& path) {
  BinaryReader in(path, kMagic, "file of answers; kvick train answers makes one");
  AnswerData data;
  data.vocab = in.number<uint32_t>();
  data.vocabulary.pairs = in.number<uint64_t>();
  data.vocabulary.bytes = in.string();
  data.top = in.number<uint32_t>();
  data.ends = in.list<uint64_t>();
  data.tokens = in.list<int32_t>();
  data.likeliest = in.list<int32_t>();
  data.chances = in.list<float>();
  in.end();
  check(data, path);
  return data;
}

}  // namespace kvick::train
