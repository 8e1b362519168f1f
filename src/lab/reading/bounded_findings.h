#pragma once
// Internal to the experiment bounded: what its measurements come to.

#include "lab/core/experiment.h"

namespace kvick::lab {

// The parts of a cell's `what`.
inline constexpr const char* kPerplexityPart = "perplexity";
inline constexpr const char* kDecodePart = "decode";

// Perplexity by context: a table, a chart and the lines of the summary, each memory against `rows`,
// the model that keeps rows. trained: tokens of the windows that the models were trained on, past
// which contexts are marked; 0: not known. Cells of other parts are passed over.
void add_perplexity(std::span<const Measured> all, const std::string& rows, uint32_t trained,
                    Findings& findings);
// Time and bytes by depth likewise, with the slope of each through the medians of the depths.
void add_decode(std::span<const Measured> all, Findings& findings);

}  // namespace kvick::lab
