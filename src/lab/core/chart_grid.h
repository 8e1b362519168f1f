#pragma once
// Internal to charts: grids of shares.

#include "lab/core/chart.h"

namespace kvick::lab {

// What every chart begins with, its title included: a picture of that size, in pixels.
std::string head_of(const Chart& chart, double width, double height);
// A whole picture, of a chart with rows.
std::string grids_of(const Chart& chart);

}  // namespace kvick::lab
