// A worker for a third-party training program: speaks the worker protocol (docs/campaign.md) and runs a
// command for each request (docs/exec-runner.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "record/run.h"
#include "record/trial.h"

namespace bitrift::campaign {

struct ExecWorkerOptions {
  std::filesystem::path base;        ///< the reference for "changed"
  std::string connect;               ///< the driver's socket, in the abstract namespace
  std::vector<std::string> command;  ///< words with placeholders (spec/exec_runner.h)
  std::string arm;
  int ranks = 1;
  bool ignore_file = false;  ///< drill: every run gets the base
};

/// The options that worker_command() (campaign/launch/launch.h) writes. Throws Error(bad_input).
[[nodiscard]] ExecWorkerOptions exec_worker_options(const std::filesystem::path& base,
                                                    const std::string& connect, const std::string& runner);

/// The body of `bitrift exec-worker`; returns its exit code: 0 after the driver's goodbye, 3 when the driver
/// hung up, 2 after a command that failed, or 128 + n when signal n ended it. The command and all its
/// descendants end with it. Throws Error when the base cannot be read or the driver is not listening.
[[nodiscard]] int run_exec_worker(const ExecWorkerOptions& options);

/// The tensors and root attributes ("@spec") in which a file differs from the base, sorted; checksums, which
/// follow their tensors, and tensors that cannot be compared do not count. Throws as ckpt::Reader does.
[[nodiscard]] std::vector<std::string> changed_in_file(const std::filesystem::path& base,
                                                       const std::filesystem::path& file);

}  // namespace bitrift::campaign
