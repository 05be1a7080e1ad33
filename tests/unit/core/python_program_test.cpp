#include "core/process/python_program.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "unit/scratch.h"

namespace bitrift::python_program_test {
namespace {

namespace fs = std::filesystem;

/// Sets a variable of the environment, and restores it.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name); before != nullptr) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

fs::path make_program(const fs::path& path) {
  fs::create_directories(path.parent_path());
  replace_text(path, "#!/bin/sh\n");
  ::chmod(path.c_str(), 0755);
  return path;
}

class PythonProgram : public ::testing::Test {
 protected:
  testing::Scratch scratch_;
  fs::path checkout_ = scratch_ / "checkout";
  fs::path program_ = checkout_ / "build" / "release" / "bin" / "bitrift";
  fs::path on_path_ = make_program(scratch_ / "path/python3");
  Variable path_{"PATH", (scratch_ / "empty").string() + ":" + (scratch_ / "path").string()};
  Variable named_{"BITRIFT_PYTHON", ""};
};

TEST_F(PythonProgram, ThePathIsSearchedLast) {
  EXPECT_EQ(find_python(program_), on_path_);
  const fs::path own = make_program(checkout_ / ".venv/bin/python3");
  EXPECT_EQ(find_python(program_), own);
  const fs::path beside = make_program(program_.parent_path() / "python3");
  EXPECT_EQ(find_python(program_), beside);
}

TEST_F(PythonProgram, AnEnvironmentIsThatOfItsOwnCheckoutOnly) {
  make_program(checkout_ / ".venv/bin/python3");
  EXPECT_EQ(find_python(checkout_ / "bin/bitrift"), on_path_);
  EXPECT_EQ(find_python(scratch_ / "build/release/bin/bitrift"), on_path_);
}

TEST_F(PythonProgram, AProgramOfAWheelTakesThatOfItsEnvironment) {
  const fs::path packages = scratch_ / "environment/lib/python3.11/site-packages";
  EXPECT_EQ(find_python(packages / "bitrift.scripts/bitrift"), on_path_);
  const fs::path own = make_program(scratch_ / "environment/bin/python3");
  EXPECT_EQ(find_python(packages / "bitrift.scripts/bitrift"), own);
  EXPECT_EQ(find_python(packages / "another.scripts/bitrift"), on_path_);
}

TEST_F(PythonProgram, TheVariableComesFirstAndMustNameAProgram) {
  make_program(checkout_ / ".venv/bin/python3");
  const fs::path chosen = make_program(scratch_ / "path/python3.13");
  {
    const Variable by_path("BITRIFT_PYTHON", chosen.string());
    EXPECT_EQ(find_python(program_), chosen);
  }
  {
    const Variable by_name("BITRIFT_PYTHON", "python3.13");
    EXPECT_EQ(find_python(program_), chosen);
  }
  const Variable wrong("BITRIFT_PYTHON", (scratch_ / "path").string());
  EXPECT_ERROR(static_cast<void>(find_python(program_)), not_found, "BITRIFT_PYTHON=");
}

TEST_F(PythonProgram, WithoutPythonTheErrorSaysWhatToInstall) {
  fs::remove(on_path_);
  EXPECT_ERROR(static_cast<void>(find_python(program_)), not_found, "install Python");
}

TEST_F(PythonProgram, ACommandHasThePythonAndItsArguments) {
  const Variable named("BITRIFT_PYTHON", on_path_.string());
  const Command command = python_command({"-m", "bitrift"});
  EXPECT_EQ(command.arguments, (std::vector<std::string>{on_path_.string(), "-m", "bitrift"}));
}

}  // namespace
}  // namespace bitrift::python_program_test
