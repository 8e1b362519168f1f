#pragma once
// Findings as JSON, and as text for a terminal.

#include "lab/core/experiment.h"

namespace kvick::lab {

Json json_of(const Chart& chart);
Json json_of(const Table& table);
// The tables, columns aligned.
std::string text_of(const Findings& findings);
std::string text_of(const Table& table);

}  // namespace kvick::lab
