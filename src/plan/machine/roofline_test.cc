#include "plan/machine/roofline.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "model/core/seen_rows.h"

namespace kvick::plan {
namespace {

// Two layers with three heads of dimension 8; keys and values of a token take 64 bytes in all.
model::Config config() {
  model::Config config;
  config.layers.assign(2, model::LayerConfig::attention(3, 3, 8));
  return config;
}

constexpr model::Weights kWeights = {.layers = {.bytes = 1000, .int8 = 700, .half = 30, .f32 = 10},
                                     .output = {.bytes = 300, .int8 = 90, .half = 110, .f32 = 0},
                                     .lookup_bytes = 7};

CacheReads every_row() {
  const auto bytes = [](uint32_t tokens) { return uint64_t{64} * tokens; };
  return {.seen_bytes = bytes, .bytes = bytes};
}

constexpr double kRowOps = 4.0 * 3 * 8 * 2;  // one token with one row, all layers

TEST(DecodeWork, OfOneTokenIsTheWeightsAndItsRows) {
  const Work work = decode_work(config(), kWeights, every_row(), {9, 1, 1});
  EXPECT_EQ(work.bytes, 1000 + 300 + 7 + 10 * 64);
  EXPECT_EQ(work.int8_ops, 2 * 790);
  EXPECT_EQ(work.f32_ops, 2 * 150 + 10 * kRowOps);
  EXPECT_EQ(work.tile_ops, 0);
  EXPECT_EQ(work.ops(), work.int8_ops + work.f32_ops);
  EXPECT_EQ(work.working_set_bytes, 1300u + 10 * 64);
}

TEST(DecodeWork, ReadsTheWeightsOnceForAllSequences) {
  const Work one = decode_work(config(), kWeights, every_row(), {9, 5, 1});
  const Work four = decode_work(config(), kWeights, every_row(), {9, 5, 4});
  EXPECT_EQ(four.bytes, 4 * one.bytes - 3 * 5 * 1300);
  EXPECT_EQ(four.ops(), 4 * one.ops());
}

TEST(DecodeWork, AddsUpItsSteps) {
  double bytes = 0, ops = 0;
  for (uint32_t i = 0; i < 5; ++i) {
    const Work step = decode_work(config(), kWeights, every_row(), {9 + i, 1, 2});
    bytes += step.bytes;
    ops += step.ops();
  }
  const Work work = decode_work(config(), kWeights, every_row(), {9, 5, 2});
  EXPECT_EQ(work.bytes, bytes);
  EXPECT_EQ(work.ops(), ops);
}

TEST(DecodeWork, CountsOnlyTheRowsThatAStrategyReads) {
  CacheReads four_rows = every_row();
  four_rows.bytes = [](uint32_t) { return 4 * 64; };
  const Work work = decode_work(config(), kWeights, four_rows, {5000, 1, 1});
  EXPECT_EQ(work.bytes, 1307 + 4 * 64);
  EXPECT_EQ(work.f32_ops, 2 * 150 + 4 * kRowOps);
}

TEST(DecodeWork, CountsEveryRowWhereSomeTakeFewerBytes) {
  CacheReads halves = every_row();
  halves.bytes = [](uint32_t tokens) { return uint64_t{32} * tokens; };
  halves.all_rows = true;
  const Work work = decode_work(config(), kWeights, halves, {9, 1, 1});
  EXPECT_EQ(work.bytes, 1307 + 10 * 32);
  EXPECT_EQ(work.f32_ops, 2 * 150 + 10 * kRowOps);
}

TEST(DecodeWork, CountsForEachLayerWhatItSees) {
  model::Config mixed = config();
  mixed.layers[0].window = 4;
  mixed.layers[1] = model::LayerConfig::attention(2, 1, 16);
  const model::RowTypes f32 = {.k = kernels::DType::kF32, .v = kernels::DType::kF32};
  // Layer 0 keeps 48 floats of a token, layer 1 keeps 32.
  EXPECT_EQ(model::seen_bytes(mixed, f32, 3), 3u * (48 + 32) * 4);
  EXPECT_EQ(model::seen_bytes(mixed, f32, 10), (4u * 48 + 10 * 32) * 4);
  mixed.layers[0].chunked = true;  // the tenth token is the second one of its chunk
  EXPECT_EQ(model::seen_bytes(mixed, f32, 10), (2u * 48 + 10 * 32) * 4);
  mixed.layers[0].chunked = false;
  CacheReads all = {.seen_bytes = [&](uint32_t t) { return model::seen_bytes(mixed, f32, t); }};
  all.bytes = all.seen_bytes;
  const Work work = decode_work(mixed, kWeights, all, {9, 1, 1});
  EXPECT_EQ(work.bytes, 1307 + (4 * 48 + 10 * 32) * 4);
  EXPECT_EQ(work.f32_ops, 2 * 150 + 4.0 * 3 * 8 * 4 + 4.0 * 2 * 16 * 10);
}

TEST(PrefillWork, ReadsTheLayersOncePerForwardAndTheOutputLayerOnce) {
  const Work work = prefill_work(config(), kWeights, every_row(), {10, 7, 3});
  EXPECT_EQ(work.bytes, 3 * 1000 + 300 + 7 * 7 + (13 + 16 + 17) * 64);
  EXPECT_EQ(work.int8_ops, 2 * 700 * 7 + 2 * 90);
  // Token i sees 10 + i rows.
  EXPECT_EQ(work.f32_ops, 2 * 40 * 7 + 2 * 110 + (7 * 10 + 28) * kRowOps);
  EXPECT_EQ(work.tile_ops, 0);
  EXPECT_EQ(work.working_set_bytes, 1300u + 17 * 64);
}

TEST(PrefillWork, CountsWhatEachRoleMultipliesOnTiles) {
  using model::Role;
  const auto of = [](Role role) {
    return prefill_work(config(), kWeights, every_row(), {10, 7, 3, role});
  };
  const Work answer = of(Role::kAnswer), layers = of(Role::kPromptLayers), all = of(Role::kPrompt);
  constexpr double kAttention = (7 * 10 + 28) * kRowOps;
  EXPECT_EQ(layers.tile_ops, 2 * (700 + 30) * 7);
  EXPECT_EQ(layers.int8_ops, 2 * 90) << "the output layer is that of answers";
  EXPECT_EQ(layers.f32_ops, 2 * 10 * 7 + 2 * 110 + kAttention);
  EXPECT_EQ(all.tile_ops, layers.tile_ops + kAttention);
  EXPECT_EQ(all.int8_ops, layers.int8_ops);
  EXPECT_EQ(all.f32_ops, layers.f32_ops - kAttention);
  for (const Work& work : {layers, all}) {
    EXPECT_EQ(work.ops(), answer.ops());
    EXPECT_EQ(work.bytes, answer.bytes);
    EXPECT_EQ(work.working_set_bytes, answer.working_set_bytes);
  }
}

TEST(PrefillWork, CountsWeightsThatMeetRoundedInputsApart) {
  using model::Role;
  model::Weights rounded = kWeights;
  std::swap(rounded.layers.half, rounded.layers.bf16);
  std::swap(rounded.output.half, rounded.output.bf16);
  for (const Role role : {Role::kAnswer, Role::kPromptLayers, Role::kPrompt}) {
    const PrefillLoad load = {10, 7, 3, role};
    const Work plain = prefill_work(config(), kWeights, every_row(), load);
    const Work work = prefill_work(config(), rounded, every_row(), load);
    EXPECT_EQ(plain.bf16_ops, 0);
    EXPECT_EQ(work.bf16_ops, 2 * 110 + (role == Role::kAnswer ? 2 * 30 * 7 : 0));
    EXPECT_EQ(work.f32_ops + work.bf16_ops, plain.f32_ops);
    EXPECT_EQ(work.tile_ops, plain.tile_ops);
    EXPECT_EQ(work.ops(), plain.ops());
  }
}

TEST(Bound, CountsProductsOfBf16AtTheirSpeed) {
  Calibration machine;
  machine.read = {{1, 1}};
  machine.int8_ops_s = machine.f32_ops_s = 2;
  const Work work = {.f32_ops = 4, .bf16_ops = 12};
  EXPECT_THROW(bound_of(work, machine), base::Bug);
  machine.bf16_ops_s = 4;
  EXPECT_EQ(bound_of(work, machine).compute_s, 4 / 2 + 12 / 4);
}

TEST(Bound, IsTheLongerOfMemoryAndArithmetic) {
  Calibration machine;
  machine.read = {{100, 50}, {1000, 10}};
  machine.int8_ops_s = 8;
  machine.f32_ops_s = 2;
  const Bound memory =
      bound_of({.bytes = 400, .int8_ops = 16, .f32_ops = 4, .working_set_bytes = 999}, machine);
  EXPECT_EQ(memory.memory_s, 8);
  EXPECT_EQ(memory.compute_s, 4);
  EXPECT_TRUE(memory.by_memory());
  EXPECT_EQ(memory.seconds(), 8);
  const Bound compute =
      bound_of({.bytes = 40, .int8_ops = 16, .f32_ops = 8, .working_set_bytes = 1000}, machine);
  EXPECT_EQ(compute.memory_s, 4);
  EXPECT_EQ(compute.seconds(), 6);
  EXPECT_FALSE(compute.by_memory());
}

TEST(Bound, CountsTilesAtTheirOwnSpeed) {
  Calibration machine;
  machine.read = {{100, 50}};
  machine.int8_ops_s = 8;
  machine.f32_ops_s = 2;
  const Work work = {.bytes = 50, .int8_ops = 16, .f32_ops = 4, .tile_ops = 64};
  EXPECT_THROW(bound_of(work, machine), base::Bug);
  machine.tile_ops_s = 16;
  EXPECT_EQ(bound_of(work, machine).compute_s, 2 + 2 + 4);
}

Calibration slow_machine() {
  Calibration machine;
  machine.read = {{100, 50}, {1000, 10}};
  machine.int8_ops_s = 8;
  machine.f32_ops_s = 2;
  return machine;
}

TEST(RaiseLimits, LeavesLimitsThatHeld) {
  Calibration machine = slow_machine();
  const Work work = {.bytes = 400, .int8_ops = 16, .f32_ops = 4, .working_set_bytes = 999};
  EXPECT_FALSE(raise_limits(work, 8, machine)) << "as fast as is possible";
  EXPECT_FALSE(raise_limits(work, 100, machine));
  EXPECT_EQ(machine, slow_machine());
}

TEST(RaiseLimits, RaisesThoseThatARunHasBeaten) {
  const Work work = {.bytes = 400, .int8_ops = 16, .f32_ops = 4, .working_set_bytes = 999};
  Calibration machine = slow_machine();
  EXPECT_TRUE(raise_limits(work, 5, machine));  // memory said 8 s, arithmetic 4
  EXPECT_NEAR(machine.read[0].bytes_s, 80, 1e-6);
  EXPECT_EQ(machine.read[1], slow_machine().read[1]) << "larger than the working set";
  EXPECT_EQ(machine.int8_ops_s, 8);
  machine = slow_machine();
  EXPECT_TRUE(raise_limits(work, 2, machine));  // and now arithmetic too, twice
  EXPECT_NEAR(machine.int8_ops_s, 16, 1e-6);
  EXPECT_NEAR(machine.f32_ops_s, 4, 1e-6);
  EXPECT_EQ(machine.tile_ops_s, 0);
}

TEST(RaiseLimits, LeavesNoRunAboveItsRoof) {
  for (const double seconds : {1e-9, 0.3, 1.0 / 3, 0.7, 1.1, 3.9, 7.9999999}) {
    Calibration machine = slow_machine();
    machine.tile_ops_s = 3;
    for (const uint64_t working_set : {1u, 100u, 999u, 5000u})
      for (const double scale : {0.01, 1.0, 17.0}) {
        const Work work = {.bytes = 400 * scale,
                           .int8_ops = 16 / scale,
                           .f32_ops = 4,
                           .tile_ops = scale,
                           .working_set_bytes = working_set};
        raise_limits(work, seconds, machine);
        EXPECT_LE(bound_of(work, machine).seconds() / seconds, 1);
        EXPECT_FALSE(raise_limits(work, seconds, machine)) << "once is enough";
      }
  }
}

}  // namespace
}  // namespace kvick::plan
