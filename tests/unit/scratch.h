// A folder for one test, and a Python with h5py for what must be made or read by somebody else.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/error.h"
#include "core/file.h"
#include "unit/places.h"

namespace bitrift::testing {

class Scratch : public TemporaryFolder {
 public:
  Scratch() : TemporaryFolder("bitrift-unit") {}
  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path() / name; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(path()), std::filesystem::directory_iterator()));
  }
};

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Runs a Python script with h5py and numpy imported, `path` being the file. False when it fails (its message
/// is on stderr).
inline bool python(const std::filesystem::path& path, const std::string& script) {
  const std::filesystem::path own = std::filesystem::path(source_dir) / ".venv/bin/python";
  const std::string program = std::filesystem::exists(own) ? own.string() : "python3";
  const std::filesystem::path file = path.string() + ".script.py";
  std::ofstream(file) << "import sys, h5py, numpy as np\npath = sys.argv[1]\n" << script;
  // A sanitizer that is preloaded into this program must not reach Python.
  const int status = std::system((program + " '" + file.string() + "' '" + path.string() + "'").c_str());
  std::filesystem::remove(file);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace bitrift::testing

/// The statement throws Error of this code with this text in it.
#define EXPECT_ERROR(statement, expected_code, expected_text)                                        \
  do {                                                                                               \
    try {                                                                                            \
      statement;                                                                                     \
      ADD_FAILURE() << "nothing was thrown by " #statement;                                          \
    } catch (const ::bitrift::Error& caught) {                                                       \
      EXPECT_EQ(caught.code(), ::bitrift::ErrorCode::expected_code) << caught.what();                \
      EXPECT_NE(std::string(caught.what()).find(expected_text), std::string::npos) << caught.what(); \
    }                                                                                                \
  } while (false)
