// Logits against llama.cpp's on the same file and tokens, on every instruction set of this machine.
//
// Bounds. Where the weights are floats, kvick multiplies float32 activations with them, so it
// differs from llama.cpp's float32 result by the order of its sums alone: measured up to 9e-6 of
// the largest logit, of gated delta nets 1.3e-5 (with another seed llama.cpp's own builds for two
// instruction sets were 7e-5 apart: where queries and keys are nearly at right angles, what a head
// gives is almost 0 before a norm makes it large), allowed 5e-5 (the project's promise is 1e-3).
// llama.cpp itself rounds the activations to the weights' type, so that its F16 and BF16 results
// are 1.5e-3 and 1.3e-2 from the exact ones; those two are therefore compared with its result on
// the widened weights, and with its own one only up to the distance that it keeps from that.
//
// Where the weights are quantised, both engines also round the activations to 8 bits: kvick per 32
// with a float32 scale, llama.cpp per 32 with a float16 one (Q8_0 and older) or per 256 (the K
// types). Neither is right; what both approximate is the result on the widened weights. kvick has
// to be as close to it as llama.cpp, up to what chance gives: the mean over positions within 1.2
// times, the mean KL 1.35 times and the worst position twice llama.cpp's distance. Measured: 0.9
// to 1.05, 0.8 to 1.2 and up to 1.45 times for the old types; 0.6 to 0.75 for the K types. Of
// twelve models each of six kinds (Q8_0 and Q4_0, one with other seeds) the mean KL was 0.99 to
// 1.03 times llama.cpp's at the geometric mean of each kind, and 1.32 times at most. From each
// other they may be 1.5 times llama.cpp's distance (independent errors of equal size would be 1.4
// times).
#include <gtest/gtest.h>
#include <limits>

#include "reference.h"
#include "subject.h"

namespace kvick::parity {
namespace {

constexpr double kFloatBound = 5e-5;
// Of families with gelu, which llama.cpp looks up in a table of float16: measured up to 5.2e-4.
constexpr double kGeluBound = 1e-3;

double float_bound(const Case& c) {
  const bool gelu = c.name.starts_with("gemma") || c.name.starts_with("starcoder2");
  return gelu ? kGeluBound : kFloatBound;
}

bool has_float_weights(const Case& c) {
  return c.exact.empty() || c.name.ends_with("-F16") || c.name.ends_with("-BF16");
}

void expect_float_parity(const std::vector<Position>& ours, const Case& c) {
  const Deviation to_exact = deviation(ours, c.exact.empty() ? c.peer : c.exact);
  EXPECT_LE(to_exact.relative_max, float_bound(c)) << to_string(to_exact);
  EXPECT_LE(to_exact.norm_max, float_bound(c)) << to_string(to_exact);
  if (c.exact.empty()) return;
  const Deviation to_peer = deviation(ours, c.peer), peers = deviation(c.peer, c.exact);
  EXPECT_LE(to_peer.relative_max, peers.relative_max + kFloatBound) << to_string(to_peer);
}

void expect_quantised_parity(const std::vector<Position>& ours, const Case& c) {
  const Deviation to_exact = deviation(ours, c.exact), peers = deviation(c.peer, c.exact);
  const Deviation to_peer = deviation(ours, c.peer);
  const std::string measured = "kvick to exact: " + to_string(to_exact) +
                               "\npeer to exact:  " + to_string(peers) +
                               "\nkvick to peer:  " + to_string(to_peer);
  EXPECT_LE(to_exact.relative_mean, 1.2 * peers.relative_mean) << measured;
  EXPECT_LE(to_exact.relative_max, 2 * peers.relative_max) << measured;
  EXPECT_LE(to_exact.kl_mean, 1.35 * peers.kl_mean) << measured;
  EXPECT_LE(to_exact.norm_max, 2 * peers.norm_max) << measured;
  EXPECT_LE(to_peer.relative_mean, 1.5 * peers.relative_mean) << measured;
}

class EveryCase : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Logits, EveryCase, testing::ValuesIn(case_names()), [](const auto& entry) {
  std::string name = entry.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST_P(EveryCase, AgreesWithThePeer) {
  const Case c = load_case(GetParam());
  const auto path = model_of(c);
  if (!path) GTEST_SKIP() << "KVICK_TEST_MODEL or KVICK_TEST_DATA is not set";
  for (const base::Isa isa : base::kIsas) {
    // The scalar twin takes ten seconds for this one, and nothing that the others have not shown.
    const bool too_slow = c.name == "smollm2" && isa == base::Isa::kScalar;
    if (!base::isa_supported(isa) || too_slow) continue;
    SCOPED_TRACE(base::isa_name(isa));
    const auto engine = open_engine(*path, isa);
    const auto ours = compact(logits_of(*engine, c.ids), c);
    has_float_weights(c) ? expect_float_parity(ours, c) : expect_quantised_parity(ours, c);
  }
}

// That the bounds above can fail at all.
TEST(Deviation, SeesOneWrongLogitAndOneThatIsNotANumber) {
  const Case c = load_case("llama-F32");
  EXPECT_EQ(deviation(c.peer, c.peer).relative_max, 0);
  std::vector<Position> wrong = c.peer;
  wrong[200].logits.begin()->second += 0.1f;
  EXPECT_GT(deviation(wrong, c.peer).relative_max, 100 * kFloatBound);
  wrong[200].logits.begin()->second = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(deviation(wrong, c.peer).relative_max <= kFloatBound);
}

}  // namespace
}  // namespace kvick::parity
