// What of LibTorch the rooms use: tensors and their functions, gradients, cards, and the settings of a
// process.
//
// Not <torch/torch.h>: every source that includes it compiles the templates of torch::nn, torch::optim and
// torch::jit once more, precompiled or not, which takes two thirds of its time (test of a pass: 9.9 s of CPU
// with it, 3.6 s with this).
#pragma once

#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>
