#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "io/gguf/gguf_writer.h"
#include "model/core/vocabulary.h"
#include "train/files/binary_file.h"
#include "train/from_model/tokenise.h"
#include "train/settings/mistake.h"

namespace kvick::train {
namespace {

std::string test_path(const std::string& name) {
  return testing::TempDir() + "kvick_tokens_" + std::to_string(getpid()) + "_" + name;
}

std::unique_ptr<text::Tokenizer> byte_tokenizer() {
  return std::move(text::Tokenizer::make(byte_vocabulary())).value();
}

TEST(Tokens, OfTheByteVocabularyAreTheBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto tokenizer = byte_tokenizer();
  const std::vector<text::Token> tokens = tokenizer->encode(all, true, false);
  ASSERT_EQ(tokens.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(tokens[static_cast<size_t>(byte)], byte);
  EXPECT_EQ(tokenizer->decode(tokens), all);
}

TEST(Tokens, TheEndOfEachTextIsHeldOutFromALineOn) {
  const std::vector<std::string> texts = {"abcdef\nghi\nk", "0123456789"};
  const TokenData data = tokenise(*byte_tokenizer(), texts, 0.3);
  const auto text = [](const std::vector<int32_t>& tokens) {
    std::string out;
    for (const int32_t token : tokens) out += token == 256 ? '$' : static_cast<char>(token);
    return out;
  };
  EXPECT_EQ(text(data.train), "abcdef\n$0123456$");
  EXPECT_EQ(text(data.held_out), "ghi\nk$789$");
  EXPECT_EQ(data.vocab, 257u);
}

TEST(Tokens, SurviveTheirFile) {
  const std::string path = test_path("a");
  for (const uint32_t vocab : {65536u, 65537u}) {
    const TokenData data{.vocab = vocab,
                         .vocabulary = {2, "two"},
                         .train = {0, 7, static_cast<int32_t>(vocab) - 1},
                         .held_out = {5}};
    write_tokens(path, data);
    const TokenData again = read_tokens(path);
    EXPECT_EQ(again.vocab, vocab);
    EXPECT_EQ(again.vocabulary.pairs, 2u);
    EXPECT_EQ(again.vocabulary.bytes, "two");
    EXPECT_EQ(again.train, data.train);
    EXPECT_EQ(again.held_out, data.held_out);
  }
  std::filesystem::remove(path);
}

TEST(Tokens, AFileWithOthersThanItsVocabularyHasIsRefused) {
  const std::string path = test_path("wrong");
  write_tokens(path, {.vocab = 5, .vocabulary = {}, .train = {1, 5}, .held_out = {}});
  try {
    read_tokens(path);
    ADD_FAILURE();
  } catch (const Mistake& mistake) {
    EXPECT_EQ(mistake.what(), path + ": holds token 5 of a vocabulary of 5");
  }
  write_text(path, "text");
  try {
    read_tokens(path);
    ADD_FAILURE();
  } catch (const Mistake& mistake) {
    EXPECT_EQ(mistake.what(), path + ": is no file of tokens; kvick train tokens makes one");
  }
  std::filesystem::remove(path);
}

TEST(Tokens, AVocabularyIsReadAsItWasWritten) {
  text::Vocabulary v = byte_vocabulary();
  v.pieces[0] = "ab";
  v.merges = {"a b"};
  v.eot = 3;
  v.add_bos = true;
  v.chat_template = "{{ messages }}";
  v.ends = {4};
  v.before = {5, 6};
  v.behind = {7};
  v.strips_left = {8};
  v.strips_right = {9};
  v.whole_words = {10};
  v.normalized = {11};
  v.nfc = v.space_prefix_spared = v.space_prefix_once = v.leftmost_wins = true;
  const Vocabulary encoded = written(v);
  io::GgufMetadata metadata;
  metadata.put("general.architecture", "llama");
  metadata.put_encoded(encoded.bytes, encoded.pairs);
  const std::string header = io::gguf_header(metadata, {});
  const auto file = io::ModelFile::parse_gguf(std::as_bytes(std::span(header)), "test");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto again = model::read_vocabulary(*file);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->model, v.model);
  EXPECT_EQ(again->pre, v.pre);
  EXPECT_EQ(again->pieces, v.pieces);
  EXPECT_EQ(again->kinds, v.kinds);
  EXPECT_EQ(again->merges, v.merges);
  EXPECT_EQ(again->eos, v.eos);
  EXPECT_EQ(again->eot, v.eot);
  EXPECT_EQ(again->pad, v.pad);
  EXPECT_EQ(again->add_bos, v.add_bos);
  EXPECT_EQ(again->add_space_prefix, v.add_space_prefix);
  EXPECT_EQ(again->chat_template, v.chat_template);
  EXPECT_EQ(again->ends, v.ends);
  EXPECT_EQ(again->before, v.before);
  EXPECT_EQ(again->behind, v.behind);
  EXPECT_EQ(again->strips_left, v.strips_left);
  EXPECT_EQ(again->strips_right, v.strips_right);
  EXPECT_EQ(again->whole_words, v.whole_words);
  EXPECT_EQ(again->normalized, v.normalized);
  EXPECT_TRUE(again->nfc && again->leftmost_wins);
  EXPECT_TRUE(again->space_prefix_spared && again->space_prefix_once);
}

}  // namespace
}  // namespace kvick::train
