#include "campaign/launch/script_python.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/process/python_program.h"

namespace bitrift::campaign {
namespace {

constexpr std::array needed = {"bitrift", "torch", "numpy", "h5py"};
constexpr int first_missing = 10;  // exit code of the probe if the first of `needed` is missing
// PyTorch is looked for, not imported: that would take seconds.
constexpr const char* probe =
    "import importlib.util, sys\n"
    "try:\n"
    "    import bitrift.runner\n"
    "except Exception:\n"
    "    sys.exit(10)\n"
    "for number, name in enumerate(sys.argv[1:]):\n"
    "    if importlib.util.find_spec(name) is None:\n"
    "        sys.exit(10 + number)\n";
constexpr double probe_s = 30;

// Why this Python cannot run a script; "" if it can.
std::string obstacle(Command python) {
  python.arguments.insert(python.arguments.end(), {"-c", probe});
  python.arguments.insert(python.arguments.end(), needed.begin(), needed.end());
  python.output = "/dev/null";
  try {
    Subprocess process(python);
    const auto status = process.wait(probe_s);
    if (status && status->ok()) return "";
    const int missing = status ? status->code - first_missing : -1;
    if (missing >= 0 && missing < static_cast<int>(needed.size()))
      return fmt::format("cannot import {}", needed[static_cast<std::size_t>(missing)]);
    return "is not a working Python";
  } catch (const Error&) {
    return "cannot be started";
  }
}

}  // namespace

Command script_python(const record::RunnerSpec& runner) {
  Command python = python_command({});
  if (!runner.interpreter.empty()) python.arguments = {runner.interpreter};
  python.environment["PYTHONHASHSEED"] = "0";  // sets of texts have one order in every process
  python.environment["PYTHONUNBUFFERED"] = "1";
  if (std::getenv("OMP_NUM_THREADS") == nullptr) python.environment["OMP_NUM_THREADS"] = "1";
  const std::string lacks = obstacle(python);
  if (lacks.empty()) return python;
  fail(ErrorCode::not_found,
       "runner.python: {} {}; install the package bitrift, PyTorch, NumPy and h5py there, or name another "
       "Python in runner.interpreter or BITRIFT_PYTHON",
       python.arguments.front(), lacks);
}

}  // namespace bitrift::campaign
