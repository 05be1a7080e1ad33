#include "study/part/saver.h"

#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "core/error.h"

namespace bitrift::study {

ExitStatus run_to_end(const Command& command) {
  Subprocess child(command);
  std::optional<ExitStatus> status;
  while (!(status = child.wait(0.1))) {
    if (!campaign::InterruptGuard::raised()) continue;
    child.terminate(5, SIGINT);  // a launcher has ranks to end
    campaign::InterruptGuard::check();
  }
  return *status;
}

void must_succeed(const ExitStatus& status, const Command& command, const std::string& what) {
  if (status.ok()) return;
  fail(status.code == 2 ? ErrorCode::bad_input : ErrorCode::internal, "{} ended with {}; {} says: {}", what,
       status.text(), command.output.string(), campaign::log_tail(command.output));
}

void run_program(const Command& command, const std::string& what) {
  must_succeed(run_to_end(command), command, what);
}

void pause(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    campaign::InterruptGuard::check();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Saver::Saver(NativeReader& reader, std::filesystem::path trainer, std::filesystem::path base,
             std::filesystem::path log)
    : reader_(reader), trainer_(std::move(trainer)), base_(std::move(base)), log_(std::move(log)) {}

std::vector<std::string> Saver::command(const std::filesystem::path& from, const FileKind& kind,
                                        const std::filesystem::path& path) const {
  return {trainer_.string(), "resume",   from.string(), "--steps", "0",          "--parallel",
          "serial",          "--format", kind.option,   "-o",      path.string()};
}

std::vector<WrittenExtent> Saver::save(const FileKind& kind, const std::filesystem::path& path,
                                       const std::filesystem::path& from) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::filesystem::remove_all(path, ignored);
  if (kind.writer == FileWriter::native) return reader_.write(kind.format, path, from);
  run_program({command(from.empty() ? base_ : from, kind, path), {}, log_}, "saving " + path.string());
  return {};
}

pid_t Saver::start(const FileKind& kind, const std::filesystem::path& path) {
  const bool native = kind.writer == FileWriter::native;
  return reader_.start_save(kind.format, path,
                            native ? std::vector<std::string>() : command(base_, kind, path));
}

}  // namespace bitrift::study
