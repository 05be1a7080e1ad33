#include "output_place.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>

#include "core/error.h"
#include "core/file.h"
#include "sink/shared_sink.h"
#include "train/state/checkpoint_folder.h"

namespace bitrift::cli {

bool names_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.native().ends_with('/') || std::filesystem::is_directory(path, ignored);
}

OutputPlace::OutputPlace(const std::filesystem::path& named, const record::CheckpointPolicy& policy)
    : named_(named), folder_(!named.empty() && names_folder(named)) {
  if (named.empty() && policy.writes())
    fail(ErrorCode::bad_input, "a checkpoint every {} needs -o, the file or folder that is written",
         policy.automatic ? "few steps" : fmt::format("{} step(s)", policy.every));
  if (folder_) {
    keep_ = policy.keep.value_or(record::CheckpointPolicy::usual_keep);
  } else if (policy.keep.value_or(1) > 1) {
    fail(ErrorCode::bad_input,
         "keeping {} checkpoints needs a folder, and -o {} is one file; name a folder (-o DIR/)",
         *policy.keep, named.empty() ? "FILE" : named.string());
  }
}

std::filesystem::path OutputPlace::file(std::int64_t step) const {
  return folder_ ? named_ / train::checkpoint_name(step) : named_;
}

void OutputPlace::check_names() const {
  if (folder_) return train::check_names(named_);
  const std::filesystem::path beside = named_.string() + ".json";
  std::error_code none;
  if (named_.empty() || !std::filesystem::exists(beside, none) ||
      std::filesystem::is_regular_file(beside, none))
    return;
  fail(ErrorCode::bad_input,
       "-o {}: {} is not a regular file, so the provenance cannot be written; move it elsewhere",
       named_.string(), beside.string());
}

void OutputPlace::prepare(bool shared) const {
  if (named_.empty()) return;
  if (folder_) {
    std::error_code error;
    std::filesystem::create_directories(named_, error);
    if (error) fail(ErrorCode::io, "-o {}: the folder cannot be made: {}", named_.string(), error.message());
    train::remove_unfinished(named_);
  }
  if (shared) return ckpt::SharedSink::check_place(file(0));
  const PendingFile probe(file(0));
}

FileDescriptor OutputPlace::hold(bool patient) const {
  if (!folder_) return {};
  FileDescriptor folder = open_file(named_, O_RDONLY | O_DIRECTORY);
  for (int turns = patient ? 100 : 0;; --turns) {
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder;
    if (errno != EWOULDBLOCK) return {};  // NFS has no locks of folders
    if (turns == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  fail(ErrorCode::busy,
       "-o {}: another run writes its checkpoints there; wait for it, or name another folder",
       named_.string());
}

void OutputPlace::check_contents(std::optional<std::int64_t> start) const {
  if (!folder_ || !std::filesystem::is_directory(named_)) return;
  const auto there = train::checkpoints_in(named_);
  if (there.empty() || (start && there.front().step <= *start)) return;
  const std::string newest = there.front().path.filename().string();
  if (!start) {
    fail(ErrorCode::bad_input,
         "-o {}: holds {} of an earlier run; continue it with `resume {} -o {}`, or name an empty folder",
         named_.string(), newest, named_.string(), named_.string());
  }
  fail(ErrorCode::bad_input,
       "-o {}: holds {}, which is newer than step {} that this run begins with; name another folder",
       named_.string(), newest, *start);
}

void OutputPlace::completed(std::int64_t step) const noexcept {
  if (folder_) train::remove_older(named_, step, keep_);
}

}  // namespace bitrift::cli
