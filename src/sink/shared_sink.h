// Lets several processes write one file.
#pragma once

#include <optional>
#include <string>

#include "core/file.h"
#include "sink/buffered_file.h"
#include "sink/sink.h"

namespace bitrift::ckpt {

/// One of the processes that write parts of one file in a folder that all of them see. They agree on the size
/// and on the parts beforehand; the caller carries the messages (for example, by MPI):
///
///   first process                          every other process
///   SharedSink sink(target)
///   sink.begin(size)
///   send sink.temporary()            -->   SharedSink sink(target, temporary)
///                                          sink.begin(size)
///   sink.write(...) of its part            sink.write(...) of its part
///   sink.sync()                            sink.commit()
///   wait for all others              <--   say "done", or "failed" where anything threw
///   sink.commit() if all are done
///
/// If any process fails or dies, the first one must not commit: its destructor removes the temporary file,
/// and the previous file stays. If the first one dies, what the others write is removed by the next save.
/// The file system must keep bytes apart that several machines write at once, as parallel file systems do.
class SharedSink final : public Sink {
 public:
  /// The first process. On begin() throws Error(bad_input) if the target is not a regular file, and
  /// Error(unsupported) on NFS and SMB.
  explicit SharedSink(std::filesystem::path target);
  /// Another process. temporary: what the first one's temporary() returned.
  SharedSink(std::filesystem::path target, const std::string& temporary);

  /// Throws as begin() would, before there is anything to save.
  static void check_place(const std::filesystem::path& target);

  /// The first process creates the file; others open it, and throw Error(conflict) if its size differs.
  void begin(std::uint64_t size) override;
  void write(std::uint64_t offset, std::span<const std::uint8_t> bytes) override;
  /// Waits until the disk has all bytes that this process wrote.
  void sync();
  /// sync(). The first process then renames the file: call it when commit() has returned in all other
  /// processes.
  void commit() override;
  [[nodiscard]] const std::filesystem::path& target() const noexcept override { return target_; }
  /// Name of the temporary file, without its folder. The first process has it after begin().
  [[nodiscard]] std::string temporary() const { return temporary_.filename().string(); }

 private:
  std::filesystem::path target_, temporary_;
  bool first_;
  std::optional<PendingFile> pending_;  // only in the first process
  std::optional<BufferedFile> file_;
};

}  // namespace bitrift::ckpt
