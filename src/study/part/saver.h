// How a study's files are written: by bitrift-train or by the libraries that define the formats.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "study/reader/native_reader.h"
#include "study/row/study_kinds.h"

namespace bitrift::study {

/// Runs a program to its end. Throws campaign::Interrupted, after which the program has ended.
[[nodiscard]] ExitStatus run_to_end(const Command& command);
/// Throws Error(bad_input | internal) unless it did, which says how `what` failed.
void must_succeed(const ExitStatus& status, const Command& command, const std::string& what);
/// Both.
void run_program(const Command& command, const std::string& what);

/// Sleeps. Throws campaign::Interrupted.
void pause(double seconds);

/// Saves the base as any kind of file.
class Saver {
 public:
  /// trainer: bitrift-train. The reader must outlive this.
  Saver(NativeReader& reader, std::filesystem::path trainer, std::filesystem::path base,
        std::filesystem::path log);
  /// Writes a new file or folder in place of an existing one, and returns the same as NativeReader::write().
  /// from: another HDF5 checkpoint than the base. Throws as that and run_program() do.
  [[nodiscard]] std::vector<WrittenExtent> save(const FileKind& kind, const std::filesystem::path& path,
                                                const std::filesystem::path& from = {});
  /// Starts a process that stops itself by SIGSTOP, and then saves the base over the file at `path`. It must
  /// have ended before the next one is started. Throws as NativeReader::start_save() does.
  [[nodiscard]] pid_t start(const FileKind& kind, const std::filesystem::path& path);
  /// Ends the process of the native libraries; the next save starts a new one. bitrift-train has one for each
  /// save.
  void end_process() noexcept { reader_.stop(); }

 private:
  [[nodiscard]] std::vector<std::string> command(const std::filesystem::path& from, const FileKind& kind,
                                                 const std::filesystem::path& path) const;

  NativeReader& reader_;
  std::filesystem::path trainer_, base_, log_;
};

}  // namespace bitrift::study
