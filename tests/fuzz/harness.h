// What the fuzz targets share: which answers are right, and files for what is read by its name.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::fuzz {

using Bytes = std::vector<std::uint8_t>;

/// Ends the process so that libFuzzer keeps the input.
[[noreturn]] inline void finding(const std::string& text) {
  std::cerr << "FINDING: " << text << std::endl;
  std::abort();
}

inline void expect(bool holds, const std::string& text) {
  if (!holds) finding(text);
}

/// Runs an action. True when it ended, false when it threw an Error that an input may cause. Error(internal)
/// and Error(io) are findings, for the files are sound to the system; so is every other exception, which goes
/// through.
template <typename Action>
bool answered(Action&& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    const bool ours = error.code() == ErrorCode::internal || error.code() == ErrorCode::io;
    if (ours) finding(std::string(error_code_name(error.code())) + ": " + error.what());
    return false;
  }
}

/// Runs an action that no input may make fail; `what` says so otherwise.
template <typename Action>
void must(Action&& action, const std::string& what) {
  try {
    action();
  } catch (const Error& error) {
    finding(what + ": " + error.what());
  }
}

/// A file of this process in the folder for temporary files (tools/fuzz makes one in memory), rewritten for
/// every input.
class ScratchFile {
 public:
  explicit ScratchFile(const char* name) : path_(folder() / name) {}
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  void write(std::span<const std::uint8_t> bytes) const {
    const FileDescriptor fd = open_file(path_, O_WRONLY | O_CREAT | O_TRUNC);
    write_at(fd, bytes.data(), bytes.size(), 0, path_);
  }
  [[nodiscard]] Bytes read() const {
    const std::string text = read_text(path_);
    return {text.begin(), text.end()};
  }
  void remove() const { std::filesystem::remove(path_); }

 private:
  static const std::filesystem::path& folder() {
    static const TemporaryFolder made("bitrift-fuzz");
    return made.path();
  }
  std::filesystem::path path_;
};

}  // namespace bitrift::fuzz
