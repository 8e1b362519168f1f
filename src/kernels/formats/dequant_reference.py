#!/usr/bin/env python3
"""Prints the hashes that dequant_test.cc expects, made with the numpy dequantisers of the PyPI package gguf.

Blocks are bytes of a linear congruential generator whose scales are made finite and below 1 (MASKS; high bytes of float16
fields & 0xbb). test_blocks.h does the same.
The hash is FNV-1a, 64 bits, over the float32 results as little-endian bytes, -0 written as +0.
"""
import gguf
import numpy as np

BLOCKS = 64
HALVES = {"F16": [0], "BF16": [0], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": [], "IQ3_S": [0], "IQ3_XXS": [0], "IQ2_S": [0], "IQ2_XS": [0],
          "IQ2_XXS": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64]}
# Bytes of other scales: an exponent; the high half of a float16 that is spread over four bytes.
MASKS = {"MXFP4": {0: 0x7F}, "IQ1_M": {53: 0xBF, 55: 0xBF}}


def blocks(size, halves, masks):
    state, out = 1, bytearray()
    for _ in range(BLOCKS * size):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(state >> 56)
    for block in range(BLOCKS):
        for half in halves:
            out[block * size + half + 1] &= 0xBB
        for at, mask in masks.items():
            out[block * size + at] &= mask
    return np.frombuffer(bytes(out), np.uint8)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


for name, halves in HALVES.items():
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    data = blocks(size, halves, MASKS.get(name, {}))
    if name == "F16":
        values = data.view(np.float16).astype(np.float32)
    else:
        values = gguf.quants.dequantize(data.reshape(BLOCKS, size), kind)
    values = values.reshape(-1).astype("<f4") + np.float32(0)
    assert values.size == BLOCKS * elements and np.isfinite(values).all()
    print(f"{{DType::k{name}, 0x{fnv(values.tobytes()):016x}}},  // first {values[0]:.9g}, last {values[-1]:.9g}")
