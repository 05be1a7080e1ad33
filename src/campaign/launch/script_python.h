// Which Python runs a script of runner.python.
#pragma once

#include "core/process/subprocess.h"
#include "spec/runner_spec.h"

namespace bitrift::campaign {

/// How to start that Python, without arguments: runner.interpreter, or else the one that find_python() finds
/// (core/process/python_program.h), and the environment that its processes need in addition to the driver's.
/// Throws Error(not_found) that names the Python if it cannot be started or cannot import the package
/// bitrift, PyTorch, NumPy or h5py.
[[nodiscard]] Command script_python(const record::RunnerSpec& runner);

}  // namespace bitrift::campaign
