#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sys/utsname.h>
#include <unistd.h>

#include "campaign/launch/launch.h"
#include "commands.h"
#include "core/error.h"
#include "core/file.h"
#include "core/process/subprocess.h"
#include "filters/filter_program.h"
#include "output.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

/// One line of the report.
struct Finding {
  std::string name;
  std::string found;   ///< "" when missing
  std::string remedy;  ///< how to get it, when it is missing
};

std::string memory_text() {
  const auto pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  return fmt::format("{:.1f} GiB", pages * static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / (1 << 30));
}

/// What a program says about itself, on one line; "" when it fails or takes longer than 30 s.
std::string version_of(const std::filesystem::path& program) {
  const TemporaryFolder scratch("bitrift-doctor");
  const auto log = scratch.path() / "output";
  Subprocess child({.arguments = {program.string(), "--version"}, .environment = {}, .output = log});
  const auto status = child.wait(30);
  if (!status || !status->ok()) return "";
  std::string text = read_text(log);
  text.erase(text.find_last_not_of(" \n") + 1);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Finding trainer() {
  Finding finding{"bitrift-train", "",
                  "build it: tools/setup, then cmake --preset release && cmake --build --preset release"};
  std::filesystem::path program;
  try {
    program = campaign::find_trainer();
  } catch (const Error&) {
    return finding;
  }
  const std::string version = version_of(program);
  if (version.empty()) {
    finding.remedy =
        program.string() + " does not start: run it with --version to see why (usually a library has moved)";
  } else {
    finding.found = version + " (" + program.string() + ")";
  }
  return finding;
}

std::string find_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  for (std::size_t start = 0; start <= rest.size();) {
    const std::size_t end = std::min(rest.find(':', start), rest.size());
    const auto candidate = std::filesystem::path(rest.substr(start, end - start)) / program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate.string();
    start = end + 1;
  }
  return "";
}

/// On PATH, or in the Python environment that a build in this project's folder uses.
Finding launcher() {
  Finding finding{"mpirun", find_on_path("mpirun"),
                  "install Open MPI 5 (tools/setup puts it into .venv) or put its mpirun on PATH"};
  std::error_code ignored;
  auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  while (finding.found.empty() && folder.has_relative_path()) {
    const auto candidate = folder / ".venv" / "bin" / "mpirun";
    if (::access(candidate.c_str(), X_OK) == 0) finding.found = candidate.string();
    folder = folder.parent_path();
  }
  return finding;
}

Finding filter_library() {
  try {
    return {"HDF5", h5::filter_library_version(), ""};
  } catch (const Error& error) {
    return {"HDF5", "", error.what()};
  }
}

std::vector<Finding> examine() {
  const record::Json self = record::provenance(command_line());
  std::vector<Finding> findings;
  findings.push_back(
      {"bitrift",
       fmt::format("{} ({}, {})", record::bitrift_version(), self.at("commit").get<std::string>(),
                   self.at("build_type").get<std::string>()),
       ""});
  findings.push_back(filter_library());
  findings.push_back({"system", self.at("system").get<std::string>(), ""});
  findings.push_back({"processor", self.at("processor").get<std::string>(), ""});
  findings.push_back({"cores", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)), ""});
  findings.push_back({"memory", memory_text(), ""});
  findings.push_back(trainer());
  findings.push_back(launcher());
  return findings;
}

int diagnose(bool json) {
  const std::vector<Finding> findings = examine();
  bool complete = true;
  record::Json list = record::Json::array();
  Table table({"what", "found"});
  std::string remedies;
  for (const Finding& finding : findings) {
    const bool missing = finding.found.empty();
    complete = complete && !missing;
    record::Json entry = {{"name", finding.name},
                          {"found", missing ? record::Json() : record::Json(finding.found)}};
    if (missing) entry["remedy"] = finding.remedy;
    list.push_back(std::move(entry));
    table.add({finding.name, missing ? "missing" : finding.found});
    if (missing) remedies += fmt::format("{} is missing: {}\n", finding.name, finding.remedy);
  }
  if (json) {
    print_json({{"complete", complete}, {"findings", std::move(list)}});
  } else {
    print(table.text() + remedies + (complete ? "everything that a campaign needs is here\n" : ""));
  }
  return complete ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, ExitCode& exit_code) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "doctor", "Check this machine: what is installed, what is missing, and how to install it");
  command->add_flag("--json", *json, "print JSON instead of a table");
  command->footer(
      "Example:\n  bitrift doctor\n\n"
      "Exit codes: 0 nothing is missing, 1 something is missing, 2 usage or input error, "
      "3 internal error in bitrift");
  command->callback([json, &exit_code] { exit_code.value = diagnose(*json); });
}

}  // namespace bitrift::cli
