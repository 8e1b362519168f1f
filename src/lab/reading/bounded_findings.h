#pragma once
// Internal to the experiment bounded: turns its measurements into findings.

#include "lab/core/experiment.h"

namespace kvick::lab {

// Values of "part" in a cell's `what`.
inline constexpr const char* kPerplexityPart = "perplexity";
inline constexpr const char* kDecodePart = "decode";

// Adds perplexity by context as a table, a chart and summary lines, each model relative to `rows`,
// the name of the model that keeps rows. trained: window in tokens that the models were trained on;
// longer contexts are marked; 0: unknown. Cells of other parts are ignored.
void add_perplexity(std::span<const Measured> all, const std::string& rows, uint32_t trained,
                    Findings& findings);
// Adds time and bytes by depth in the same way, with the slope of each through the medians of the
// depths.
void add_decode(std::span<const Measured> all, Findings& findings);

}  // namespace kvick::lab
