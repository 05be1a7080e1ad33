#include "core/process/python_program.h"

#include <cstdlib>
#include <sstream>

#include <unistd.h>

#include "core/error.h"
#include "core/process/wheel_places.h"

namespace bitrift {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "python3";
constexpr const char* kVariable = "BITRIFT_PYTHON";

bool runs(const fs::path& program) {
  std::error_code none;
  return fs::is_regular_file(program, none) && ::access(program.c_str(), X_OK) == 0;
}

/// Empty when no folder of PATH has it.
fs::path on_path(const std::string& name) {
  const char* const search = std::getenv("PATH");
  std::istringstream folders(search == nullptr ? "" : search);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (runs(candidate)) return fs::absolute(candidate);
  }
  return {};
}

/// The Python of tools/setup, for a program below CHECKOUT/build; empty when there is none.
fs::path of_checkout(const fs::path& program) {
  for (fs::path folder = program.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    fs::path candidate = folder.parent_path() / ".venv" / "bin" / kPython;
    if (folder.filename() == "build" && runs(candidate)) return candidate;
  }
  return {};
}

fs::path this_program() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none);
}

}  // namespace

fs::path find_python(const fs::path& program) {
  if (const char* const named = std::getenv(kVariable); named != nullptr && *named != '\0') {
    const std::string text = named;
    fs::path found = text.find('/') == std::string::npos ? on_path(text) : fs::absolute(text);
    if (!found.empty() && runs(found)) return found;
    fail(ErrorCode::not_found, "{}={}: no such program; name a Python interpreter", kVariable, text);
  }
  if (fs::path beside = program.parent_path() / kPython; program.has_parent_path() && runs(beside)) {
    return beside;
  }
  if (const auto wheel = wheel_places(program); wheel && runs(wheel->bin / kPython))
    return wheel->bin / kPython;
  if (fs::path found = of_checkout(program); !found.empty()) return found;
  if (fs::path found = on_path(kPython); !found.empty()) return found;
  fail(ErrorCode::not_found, "no {} beside this program or on PATH: install Python 3.11 or newer, or set {}",
       kPython, kVariable);
}

fs::path find_python() { return find_python(this_program()); }

Command python_command(const std::vector<std::string>& arguments) {
  Command command;
  command.arguments = {find_python().string()};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  const fs::path packages = this_program().parent_path().parent_path() / "python";
  std::error_code none;
  if (fs::exists(packages / "bitrift" / "__init__.py", none)) {
    const char* const set = std::getenv("PYTHONPATH");
    const std::string before = set == nullptr || *set == '\0' ? "" : std::string(set) + ":";
    command.environment["PYTHONPATH"] = before + packages.string();
  }
  return command;
}

}  // namespace bitrift
