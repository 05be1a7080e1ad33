// Finds the Python that runs bitrift's own Python code.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/process/subprocess.h"

namespace bitrift {

/// The Python interpreter for the package `bitrift`: $BITRIFT_PYTHON (a path, or a name on PATH); else
/// python3 next to `program`; else, for a program of a wheel, that of its environment; else, for a program in
/// CHECKOUT/build, CHECKOUT/.venv/bin/python3; else python3 on PATH. The caller must find out whether it has
/// the package. Throws Error(not_found).
[[nodiscard]] std::filesystem::path find_python(const std::filesystem::path& program);
/// The same for the program that is running.
[[nodiscard]] std::filesystem::path find_python();

/// How to start that Python with these arguments. A program that was built with the package in ../python
/// finds it there: the folder is appended to PYTHONPATH. Throws Error(not_found).
[[nodiscard]] Command python_command(const std::vector<std::string>& arguments);

}  // namespace bitrift
