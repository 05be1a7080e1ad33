// The Python process that writes and reads files with the libraries that define their formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "record/json/json.h"
#include "study/reader/reader_answer.h"

namespace bitrift::study {

/// Bytes [first, end) of a file that hold values of a tensor.
struct WrittenExtent {
  std::string file;  ///< path in the folder of the checkpoint; "" if it is one file
  std::uint64_t first = 0, end = 0;
  std::string tensor;
};

/// What the process says about itself and about the base.
struct ReaderFacts {
  record::Json versions;                       ///< of Python and the packages
  std::map<std::string, bool> installed;       ///< by format
  std::map<std::string, std::string> digests;  ///< number of the base's tensors
  std::uint64_t tensor_bytes = 0;              ///< bytes of all of them
};

/// Seconds of a save.
struct SaveTimes {
  double block = 0;      ///< until the caller can continue
  double persist = 0;    ///< from then until the disk has the file
  double processor = 0;  ///< processor time of the whole process
};

/// Timed saves, each over the one before it.
struct TimedSaves {
  bool behind = false;  ///< in the background, for raw and dcp
  std::int64_t count = 1;
  double between_seconds = 0;
};

struct NativeReaderOptions {
  std::string interpreter;     ///< "": see find_python()
  std::filesystem::path base;  ///< HDF5 checkpoint
  std::vector<Format> formats;
  std::uint64_t memory = 0;  ///< see DamageSpec
  std::filesystem::path log;
  bool misread = false;  ///< drill: every read returns one wrong tensor
};

/// The purpose of a process. A process that times saves is like its users' processes: its memory is not
/// limited, and it has glibc's cache of small blocks.
enum class ReaderDuty : std::uint8_t { reads, times };

/// `python -m bitrift.study.reader`. The first call starts it; after it died or hung, the next call starts
/// another, as does a call for another purpose. All members throw Error(not_found | io) when it cannot be
/// started, and campaign::Interrupted.
class NativeReader {
 public:
  explicit NativeReader(NativeReaderOptions options);
  ~NativeReader();
  NativeReader(NativeReader&&) = delete;
  NativeReader& operator=(NativeReader&&) = delete;

  [[nodiscard]] const ReaderFacts& facts();
  /// Writes the base, or `from`, another HDF5 checkpoint. Returns the places of values, for formats whose
  /// files bitrift does not read. Throws Error(io) when the process refuses or ends.
  std::vector<WrittenExtent> write(Format format, const std::filesystem::path& path,
                                   const std::filesystem::path& from = {});
  /// Starts a process that stops itself by SIGSTOP before it writes the base, or runs `command` instead (the
  /// first word is a path; none: the base). It must have ended before the next one is started. Throws as
  /// write().
  [[nodiscard]] pid_t start_save(Format format, const std::filesystem::path& path,
                                 const std::vector<std::string>& command);
  /// change: also look for ReaderContents::change.
  [[nodiscard]] ReaderAnswer read(Format format, const std::filesystem::path& path, double timeout_seconds,
                                  bool change = false);
  /// Times saves of the base, the first to a new file, and returns the medians. Throws as write().
  [[nodiscard]] SaveTimes time(Format format, const std::filesystem::path& path, const TimedSaves& what);
  /// Ends the process.
  void stop() noexcept;

 private:
  struct Process;
  struct Reply;
  void start(ReaderDuty duty);
  Reply ask(const char* what, Format format, const std::filesystem::path& path, double timeout_seconds,
            const record::Json& more = record::Json::object(), ReaderDuty duty = ReaderDuty::reads);
  Reply must_write(const char* what, Format format, const std::filesystem::path& path,
                   const record::Json& more = record::Json::object(), ReaderDuty duty = ReaderDuty::reads,
                   double timeout_seconds = write_seconds);

  static constexpr double write_seconds = 3600;  // limit for a save

  NativeReaderOptions options_;
  std::unique_ptr<Process> process_;
  std::optional<ReaderFacts> facts_;
};

}  // namespace bitrift::study
