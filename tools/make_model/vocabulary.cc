#include "make_model/vocabulary.h"

#include <string_view>

namespace kvick::tools {

const char* const kChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' "
    "}}{% endif %}";

namespace {

// Both alphabets begin with the sign for a space, followed by letters by their frequency in
// English.
constexpr std::string_view kLetters = "etaoinshrdlucmfwygpbvkxjqz";

struct Merge {
  std::string left, right;
};

// Returns `count` merges. They make every string over {space sign, letters} of two characters, then
// of three, and so on, each from a shorter string and one more letter.
std::vector<Merge> merges_over(const std::string& space, size_t count) {
  std::vector<std::string> level{space};
  for (const char c : kLetters) level.emplace_back(1, c);
  std::vector<Merge> merges;
  while (merges.size() < count) {
    std::vector<std::string> next;
    for (const std::string& left : level) {
      for (const char c : kLetters) {
        if (merges.size() == count) return merges;
        merges.push_back({left, std::string(1, c)});
        next.push_back(left + c);
      }
    }
    level = std::move(next);
  }
  return merges;
}

std::string utf8(uint32_t code) {  // below U+0800
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// Returns GPT-2's alphabet: printable Latin-1 bytes stand for themselves, and the others for U+0100
// and up, in order.
std::vector<std::string> byte_pieces() {
  std::vector<std::string> pieces;
  uint32_t next = 256;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    pieces.push_back(utf8(printable ? b : next++));
  }
  return pieces;
}

void add(MadeVocabulary& v, std::string piece, TokenType type, float score = 0) {
  v.pieces.push_back(std::move(piece));
  v.types.push_back(type);
  v.scores.push_back(score);
}

constexpr uint32_t kSpecials = 3, kMost = 400'000;

MadeVocabulary byte_level(uint32_t size) {
  MadeVocabulary v{.model = "gpt2", .pre = "gpt-2"};
  for (std::string& piece : byte_pieces()) add(v, std::move(piece), kNormalToken);
  const std::string space = v.pieces[' '];
  for (const Merge& merge : merges_over(space, size - 256 - kSpecials)) {
    v.merges.push_back(merge.left + " " + merge.right);
    add(v, merge.left + merge.right, kNormalToken);
  }
  v.bos = v.eos = static_cast<uint32_t>(v.pieces.size());
  for (const char* name : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
    add(v, name, kControlToken);
  v.scores.clear();
  return v;
}

MadeVocabulary sentence_piece(uint32_t size) {
  MadeVocabulary v{.model = "llama", .pre = "default", .bos = 1, .eos = 2, .add_bos = true};
  add(v, "<unk>", kUnknownToken);
  add(v, "<s>", kControlToken);
  add(v, "</s>", kControlToken);
  for (int b = 0; b < 256; ++b) add(v, fmt::format("<0x{:02X}>", b), kByteToken);
  const std::string space = "\u2581";
  std::vector<std::string> normal{space};
  for (const char c : kLetters) normal.emplace_back(1, c);
  for (const Merge& merge : merges_over(space, size - v.pieces.size() - normal.size()))
    normal.push_back(merge.left + merge.right);
  for (size_t i = 0; i < normal.size(); ++i)
    add(v, std::move(normal[i]), kNormalToken, -static_cast<float>(i));
  return v;
}

}  // namespace

base::Result<MadeVocabulary> make_vocabulary(VocabularyKind kind, uint32_t size) {
  const bool bytes = kind == VocabularyKind::kByteLevel;
  const uint32_t least = kSpecials + 256 + (bytes ? 0 : 1 + static_cast<uint32_t>(kLetters.size()));
  if (size < least || size > kMost)
    return base::fail("--vocab {}: from {} to {} can be made", size, least, kMost);
  return bytes ? byte_level(size) : sentence_piece(size);
}

}  // namespace kvick::tools
