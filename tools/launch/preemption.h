// A run that is asked to end early (docs/training.md, "Preemption").
#pragma once

namespace bitrift::cli {

/// Has a signal handled, unless it is ignored, as SIGHUP under nohup.
void handle_unless_ignored(int signal, void (*handler)(int)) noexcept;

/// Until leave_when_preempted(), SIGUSR1 ends this process with a line and exit code EX_TEMPFAIL.
void end_when_preempted() noexcept;
/// From now on, SIGUSR1 only asks. A process that is alone is also asked by SIGTERM; a rank that SIGTERM ends
/// is a rank that fails.
void leave_when_preempted(bool alone) noexcept;
/// Whether this process was asked to leave.
[[nodiscard]] bool preempted() noexcept;

}  // namespace bitrift::cli
