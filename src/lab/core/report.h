#pragma once
// Findings as a page that stands alone, and as text for a terminal.

#include "lab/core/experiment.h"

namespace kvick::lab {

// report: {machine, command, ...} as run_experiment writes it.
std::string html_of(const ExperimentRow& row, const Findings& findings, const Json& report);
// The tables, columns aligned.
std::string text_of(const Findings& findings);
std::string text_of(const Table& table);

}  // namespace kvick::lab
