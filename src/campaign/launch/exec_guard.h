// Runs one command so that none of its processes outlives it, or the process that asked for it.
#pragma once

#include <string>
#include <vector>

namespace bitrift::campaign {

/// The body of `bitrift exec-guard`: starts the words as a process group and ends as they end, by exit code
/// or by the same signal. Every process that descends from the command is killed when it ends, and when the
/// parent of the guard ends or the guard gets SIGTERM, SIGINT or SIGHUP: also those in groups and sessions of
/// their own (the guard is their reaper, prctl(2), PR_SET_CHILD_SUBREAPER). Only SIGKILL to the guard itself
/// leaves descendants behind that are not its children. Throws Error(not_found | io) when the command cannot
/// be started.
[[nodiscard]] int guard_command(const std::vector<std::string>& words);

}  // namespace bitrift::campaign
