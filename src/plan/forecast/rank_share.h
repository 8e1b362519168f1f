#pragma once
// What a model will do on several machines like this one that run it together (model/ranks/): the
// share of one rank is measured here, as if nobody had to wait, and what the network adds follows
// from its rate and latency.

#include <memory>
#include <string_view>

#include "model/ranks/ranks.h"
#include "model/ranks/wire_format.h"
#include "plan/forecast/predict.h"

namespace kvick::plan {

// Between any two of the machines.
struct Network {
  double bits_s = 0;                                   // in each direction
  double latency_s = 0;                                // of a message of no size, one way
  model::WireFormat format = model::WireFormat::kF32;  // of the sums (--rank-activations)
};
// "10Gb/s,30us". Errors say what is no network.
base::Result<Network> parse_network(std::string_view text);

// The first rank of several that are not there: sums are its own part, and nobody is told.
std::unique_ptr<model::Ranks> lone_rank(unsigned ranks);

// What rank 0 has of a model. Errors: as model::share_of says them.
base::Result<ModelSize> size_of_share(const ModelSize& whole, unsigned ranks);

// Seconds that the network adds to a step of `tokens` tokens, `wanted` of them with logits: two
// sums per layer, the messages of rank 0 to the others, and the logits.
double network_s(const model::Config& config, unsigned ranks, const Network& network,
                 uint32_t tokens, uint32_t wanted);

// The share of all layers that each rank has in a pipeline. Errors: as model::stage_of.
base::Result<std::vector<double>> stages_of(const ModelSize& whole, unsigned ranks);
// Packed weights of the rank that has most.
uint64_t stage_bytes(const ModelSize& whole, std::span<const double> stages);

// A step that goes through a pipeline in pieces, as one process computes one of them.
struct PiecesOfStep {
  uint32_t pieces = 1, tokens = 1;  // tokens: of a piece
  double layers_s = 0, output_s = 0;
};
// Seconds of the step: all ranks compute the first piece one after the other, and then each of them
// waits for the slowest; the messages of rank 0 to the others, and logits.
double pipeline_s(const model::Config& config, std::span<const double> stages,
                  const Network& network, const PiecesOfStep& step, uint32_t wanted);

}  // namespace kvick::plan
