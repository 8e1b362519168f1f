#pragma once
// Converts findings to JSON, and to text for a terminal.

#include "lab/core/experiment.h"

namespace kvick::lab {

Json json_of(const Chart& chart);
Json json_of(const Table& table);
// Returns the tables with aligned columns.
std::string text_of(const Findings& findings);
std::string text_of(const Table& table);

}  // namespace kvick::lab
