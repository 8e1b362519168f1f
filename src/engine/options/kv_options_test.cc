#include "engine/options/kv_options.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

using kernels::DType;

KvOptions types(std::string_view text) { return parse_kv_options("", text).value(); }
std::string refusal(std::string_view text) { return parse_kv_options("", text).error().message; }

TEST(KvOptions, ReadOneTypeOrOneEach) {
  EXPECT_EQ(types("q8").k_type, DType::kQ8);
  EXPECT_EQ(types("q8").v_type, DType::kQ8);
  EXPECT_FALSE(types("v=q4").k_type.has_value());  // the model's default
  EXPECT_EQ(types("v=q4,k=bf16").k_type, DType::kBF16);
  EXPECT_EQ(types("v=q4,k=bf16").v_type, DType::kQ4);
  EXPECT_FALSE(types("f16").aging);
}

TEST(KvOptions, ReadTypesThatChangeWithAge) {
  const KvOptions plain = types("mixed"), given = types("mixed:old=q4,window=64");
  EXPECT_EQ(plain.k_type, DType::kF16);
  EXPECT_EQ(plain.aging->k_type, DType::kQ8);
  EXPECT_EQ(plain.aging->window, 128U);
  EXPECT_EQ(given.aging->k_type, DType::kQ4);
  EXPECT_EQ(given.aging->v_type, DType::kQ4);
  EXPECT_EQ(given.aging->window, 64U);
  EXPECT_EQ(types("kivi4").aging->k_type, DType::kKivi4K);
  EXPECT_EQ(types("kivi4").aging->v_type, DType::kKivi4V);
  EXPECT_EQ(types("kivi4:window=32").aging->window, 32U);
}

TEST(KvOptions, TypesAreWrittenAsTheyAreRead) {
  for (const std::string text :
       {"f32", "q8", "q8:rotate=on", "q4", "q4:rotate=on", "k=q8,v=q4:rotate=on",
        "k=q4,v=q4:rotate=on", "q2:rotate=off", "k=q8,v=q3:rotate=on", "mixed:window=128,old=q8",
        "mixed:window=0,old=q4", "mixed:window=32,old=q3,rotate=on", "kivi4:window=64",
        "kivi4:window=64,rotate=on"})
    EXPECT_EQ(kv_type_text(types(text)), text);
  EXPECT_EQ(kv_type_text(types("mixed")), "mixed:window=128,old=q8");
}

TEST(KvOptions, ReadTheTypeOfStatesBehindThatOfRows) {
  for (const char* plain : {"", "q8", "mixed", "auto"}) {
    EXPECT_FALSE(types(plain).state_type.has_value()) << plain;
    EXPECT_EQ(types(plain).type_of_states(), DType::kF32) << plain;
  }
  EXPECT_EQ(types("state=bf16").state_type, DType::kBF16);
  EXPECT_FALSE(types("state=bf16").names_types());
  EXPECT_EQ(types("state=f32").state_type, DType::kF32);
  EXPECT_EQ(kv_type_text(types("state=bf16")), "f16,state=bf16");
  EXPECT_EQ(kv_type_text(types("q8,state=f32")), "q8");
  for (const char* text :
       {"f16,state=bf16", "q4:rotate=on,state=bf16", "k=q8,v=q4:rotate=on,state=bf16",
        "mixed:window=32,old=q3,rotate=on,state=bf16", "auto:kl=0.5,file=a/b.kvt,state=bf16"})
    EXPECT_EQ(kv_type_text(types(text)), text);
  EXPECT_EQ(kv_type_text(types("static8:a/b.kvr,state=bf16"), true), "static8:a/b.kvr,state=bf16");
  EXPECT_EQ(types("k=q8,state=bf16").k_type, DType::kQ8);
  EXPECT_EQ(types("k=q8,state=bf16").state_type, DType::kBF16);
  // Types of rows are taken alone.
  KvOptions options = types("f16,state=bf16");
  options.take_types(types("q8,state=f32"));
  EXPECT_EQ(kv_type_text(options), "q8,state=bf16");
}

TEST(KvOptions, SayWhatIsWrongWithATypeOfStates) {
  EXPECT_EQ(refusal("q8,state=f16"), "states of type \"f16\" do not exist; there are f32, bf16");
  EXPECT_EQ(refusal("state="), "states of type \"\" do not exist; there are f32, bf16");
  EXPECT_EQ(refusal("state=bf16,q8"),
            "the type of states comes last: write q8,state=bf16, not \"state=bf16,q8\"");
  for (const char* twice : {"state=bf16,state=f32", "q8,state=bf16,state=bf16"})
    EXPECT_EQ(refusal(twice), "the type of states is given twice") << twice;
  EXPECT_EQ(refusal(",state=bf16"),
            "\",state=bf16\" has no type before the comma; write state=bf16");
  EXPECT_EQ(refusal("q5,state=bf16").find("cache rows of type \"q5\" do not exist"), 0U);
}

TEST(KvOptions, RotateRowsThatAreToldToAndThoseWhoseLevelsNeedIt) {
  const auto rotated = [](std::string_view text) { return types(text).hadamard; };
  constexpr kv::Hadamard kNone, kBoth = {.k = true, .v = true};
  for (const char* plain : {"f16", "q8", "q4", "mixed:old=q4", "kivi4", "q3:rotate=off"})
    EXPECT_EQ(rotated(plain), kNone) << plain;
  for (const char* turned : {"q4:rotate=on", "q3", "q2", "q8:rotate=on", "mixed:old=q3",
                             "mixed:old=q4,rotate=on", "kivi4:rotate=on"})
    EXPECT_EQ(rotated(turned), kBoth) << turned;
  EXPECT_EQ(rotated("k=q8,v=q3"), (kv::Hadamard{.k = false, .v = true}));
  EXPECT_EQ(rotated("v=q4,k=q8:rotate=on"), (kv::Hadamard{.k = true, .v = false}));
}

TEST(KvOptions, SayInOneSentenceWhatIsWrongWithAType) {
  const std::string known =
      "there are f32, f16, bf16, q8, q4, q3, q2, static8, static16, mixed, kivi4, auto";
  EXPECT_EQ(refusal("q5"), "cache rows of type \"q5\" do not exist; " + known);
  EXPECT_EQ(refusal("q5:window=1"), "cache rows of type \"q5\" do not exist; " + known);
  EXPECT_EQ(refusal("k=q4_0"), "cache rows of type \"q4_0\" do not exist; " + known);
  EXPECT_EQ(refusal("q8,k=q4"), "\"q8\" is no type of keys and values; write q8, or k=q8,v=q4");
  EXPECT_EQ(refusal("k=q8,k=q4"), "the type of the keys is given twice");
  EXPECT_EQ(refusal("q8:window=64"), "the type q8 has no option 'window'; it has rotate");
  EXPECT_EQ(refusal("f16:rotate=on"), "the type f16 has no options, but \"rotate=on\" is given");
  EXPECT_EQ(refusal("q4:rotate=yes"),
            "q4: rotate='yes' is none of off, on (keep rows as their Hadamard transforms, which "
            "quantise better)");
  EXPECT_EQ(refusal("k=mixed"),
            "mixed is a type of keys and values together: write it alone, --kv-type mixed");
  EXPECT_EQ(refusal("v=q8,k=mixed:window=32"),
            "mixed is a type of keys and values together: write it alone, --kv-type mixed");
  EXPECT_EQ(refusal("mixed:"),
            "'' in 'mixed:' is not key=value: a KV spec is NAME[:key=value[,key=value]...]");
  EXPECT_EQ(refusal("k=kivi4,v=q4"),
            "kivi4 is a type of keys and values together: write it alone, --kv-type kivi4");
  EXPECT_EQ(refusal("kivi4_k").find("cache rows of type \"kivi4_k\" do not exist"), 0U);
  EXPECT_EQ(refusal("kivi4:old=q4"), "the type kivi4 has no option 'old'; it has window, rotate");
  EXPECT_EQ(refusal("mixed:size=3"),
            "the type mixed has no option 'size'; it has window, old, rotate");
  EXPECT_EQ(
      refusal("mixed:window=48"),
      "mixed: window=48 is not a multiple of 32, the number of rows that become old together");
  EXPECT_EQ(refusal("mixed:window=x"),
            "mixed: window='x' is not a whole number from 0 to 1048576 (newest rows that stay in "
            "f16)");
  EXPECT_EQ(refusal("mixed:old=f16"),
            "mixed: old='f16' is none of q8, q4, q3, q2 (the type of rows past the window)");
}

TEST(KvOptions, NameTheStrategiesThereAre) {
  const std::string refused = parse_kv_options("none", "f16").error().message;
  EXPECT_NE(refused.find("unknown cache strategy \"none\"; there are virtual, bmc"),
            std::string::npos)
      << refused;
}

TEST(KvOptions, APolicyIsGivenOrNone) {
  const auto select = [](const char* text) { return parse_kv_options("", "", "", text); };
  EXPECT_TRUE(reads_all(select("").value()));
  EXPECT_TRUE(reads_all(select("none").value()));
  EXPECT_EQ(kv_select_text(select("none").value()), "none");
  EXPECT_FALSE(reads_all(select("quest:budget=64").value()));
  EXPECT_EQ(kv_select_text(select("quest:budget=64").value()), "quest:budget=64");
  EXPECT_EQ(kv_select_text(select("auto:loss=0.02").value()), "quest:loss=0.02");
  EXPECT_EQ(kv_select_text(select("auto:loss=0.02,policy=sparq,budget=0.125").value()),
            "sparq:budget=0.125,loss=0.02");
  EXPECT_EQ(select("auto").error().message,
            "auto needs loss=, the share of the attention that may be missed: auto:loss=0.02");
  EXPECT_EQ(select("auto:loss=0.02,policy=h2o").error().message,
            "auto: policy=h2o is unknown or has no option loss; use one of quest, clusters, sparq, "
            "loki, maple");
  EXPECT_TRUE(select("none:budget=3").error().message.starts_with("unknown policy \"none\""));
}

}  // namespace
}  // namespace kvick::engine
