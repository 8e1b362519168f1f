#pragma once
// Predicts the speed of a model that several machines like this one run together (model/ranks/).
// The share of one rank is measured here, as if no rank had to wait; the time of the network is
// computed from its rate and latency.

#include <memory>
#include <string_view>

#include "model/ranks/ranks.h"
#include "model/ranks/wire_format.h"
#include "plan/forecast/predict.h"

namespace kvick::plan {

// The network between any two of the machines.
struct Network {
  double bits_s = 0;                                   // in each direction
  double latency_s = 0;                                // of an empty message, one way
  model::WireFormat format = model::WireFormat::kF32;  // of the sums (--rank-activations)
};
// Parses "10Gb/s,30us". Errors name the part that is wrong.
base::Result<Network> parse_network(std::string_view text);

// Returns the first of several ranks without the others: sums are its own part, messages are lost.
std::unique_ptr<model::Ranks> lone_rank(unsigned ranks);

// Returns rank 0's share of a model. Errors: those of model::share_of.
base::Result<ModelSize> size_of_share(const ModelSize& whole, unsigned ranks);

// Returns the seconds that the network adds to a step of `tokens` tokens, `wanted` of them with
// logits: two sums per layer, the messages of rank 0 to the others, and the logits.
double network_s(const model::Config& config, unsigned ranks, const Network& network,
                 uint32_t tokens, uint32_t wanted);

// Returns the share of all layers that each rank of a pipeline has. Errors: those of
// model::stage_of.
base::Result<std::vector<double>> stages_of(const ModelSize& whole, unsigned ranks);
// Returns the packed bytes of the rank that has the most weights.
uint64_t stage_bytes(const ModelSize& whole, std::span<const double> stages);

// A step that goes through a pipeline in pieces, with the seconds that one process takes for all
// layers, and for the output layer, of one piece.
struct PiecesOfStep {
  uint32_t pieces = 1, tokens = 1;  // tokens: of a piece
  double layers_s = 0, output_s = 0;
};
// Returns the seconds of the step: all ranks compute the first piece one after the other, then each
// further piece takes the time of the slowest rank. Adds the messages of rank 0 and the logits.
double pipeline_s(const model::Config& config, std::span<const double> stages,
                  const Network& network, const PiecesOfStep& step, uint32_t wanted);

}  // namespace kvick::plan
