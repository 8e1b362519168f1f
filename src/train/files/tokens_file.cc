#include "train/files/tokens_file.h"

#include "train/files/binary_file.h"
#include "train/settings/mistake.h"

namespace kvick::train {
namespace {

constexpr std::string_view kMagic = "kvick tokens 1\n";
constexpr uint32_t kMostInTwoBytes = 1 << 16;

void write_list(BinaryWriter& out, const std::vector<int32_t>& tokens, bool narrow) {
  if (narrow)
    out.list(std::vector<uint16_t>(tokens.begin(), tokens.end()));
  else
    out.list(tokens);
}

std::vector<int32_t> read_list(BinaryReader& in, bool narrow) {
  if (!narrow) return in.list<int32_t>();
  const std::vector<uint16_t> tokens = in.list<uint16_t>();
  return {tokens.begin(), tokens.end()};
}

}  // namespace

void write_tokens(const std::string& path, const TokenData& data) {
  BinaryWriter out(path);
  out.raw(kMagic.data(), kMagic.size());
  out.number(data.vocab);
  out.number(data.vocabulary.pairs);
  out.string(data.vocabulary.bytes);
  write_list(out, data.train, data.vocab <= kMostInTwoBytes);
  write_list(out, data.held_out, data.vocab <= kMostInTwoBytes);
  out.finish();
}

TokenData read_tokens(const std::string& path) {
  BinaryReader in(path, kMagic, "file of tokens; kvick train tokens makes one");
  TokenData data;
  data.vocab = in.number<uint32_t>();
  data.vocabulary.pairs = in.number<uint64_t>();
  data.vocabulary.bytes = in.string();
  data.train = read_list(in, data.vocab <= kMostInTwoBytes);
  data.held_out = read_list(in, data.vocab <= kMostInTwoBytes);
  in.end();
  for (const std::vector<int32_t>* tokens : {&data.train, &data.held_out})
    for (const int32_t token : *tokens)
      if (token < 0 || static_cast<uint32_t>(token) >= data.vocab)
        refuse(path, ": holds token ", token, " of a vocabulary of ", data.vocab);
  return data;
}

}  // namespace kvick::train
