#pragma once
// Internal to kernels/: the grids of IQ1 to IQ3, from llama.cpp's ggml-common.h. An entry is a
// point of 8 magnitudes, two bits each, or of 4 magnitudes, three bits each; the first has the
// lowest bits. Magnitudes are stored as the codes of codebooks.h without sign: in IQ2, 0 is 8, 1 is
// 25, 2 is 43.

#include <cstdint>

namespace kvick::kernels {

extern const uint16_t kIq2XxsGrid[256];  // of 8
extern const uint16_t kIq2XsGrid[512];   // of 8
extern const uint16_t kIq2SGrid[1024];   // of 8
extern const uint16_t kIq1Grid[2048];    // of 8: 0 for -1, 1 for 0, 2 for 1
extern const uint16_t kIq3XxsGrid[256];  // of 4
extern const uint16_t kIq3SGrid[512];    // of 4

}  // namespace kvick::kernels
