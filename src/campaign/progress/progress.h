// The progress display of a running campaign: on stderr, so that stdout carries results only.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "campaign/progress/running_rates.h"

namespace bitrift::campaign {

/// "40 s", "3 min 20 s", "2 h 05 min", "3 d 04 h".
[[nodiscard]] std::string duration_text(double seconds);
/// "[######..............]", `width` characters between the brackets; total 0 counts as done.
[[nodiscard]] std::string bar_text(std::size_t done, std::size_t total, std::size_t width);
/// A line that does not wrap: cut to `columns` characters, with "..." at the end if something is missing.
[[nodiscard]] std::string fitted(std::string line, std::size_t columns);

/// Shows the progress of the stage and the rates of the trials so far. On a terminal, a bar with the rates
/// below it, rewritten at most ten times a second; elsewhere plain lines at the start and the end of each
/// stage and, in between, after 10 s and then whenever a tenth of the stage's time so far has passed, at most
/// 5 min.
class Progress {
 public:
  /// Looks at stderr.
  Progress();
  ~Progress();
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  /// Begins a stage of `total` runs; an earlier start did `done` of them.
  void stage(const std::string& name, std::size_t done, std::size_t total);
  /// One more run is over.
  void advance();
  /// `runs` runs that were over have to be repeated.
  void take_back(std::size_t runs) { done_ -= runs; }
  void incident() { ++incidents_; }
  /// Prints a separate line.
  void note(const std::string& text);
  /// Called often: keeps the time left on a terminal up to date while long runs are in progress.
  void tick();
  /// Shows these rates from now on; they must outlive this or be replaced by nullptr.
  void show(RunningRates* rates) { rates_ = rates; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    Clock::time_point time;
    std::size_t done = 0;
  };
  [[nodiscard]] double per_second() const;
  [[nodiscard]] std::string counts(double rate) const;
  void print();
  void rewrite(const std::vector<std::string>& lines);
  void clear();

  bool terminal_;
  std::size_t lines_shown_ = 0;
  std::string stage_;
  std::size_t done_ = 0, total_ = 0, incidents_ = 0;
  RunningRates* rates_ = nullptr;
  Clock::time_point began_, printed_;
  Mark recent_, before_;  // the speed since `before_`, 30 to 60 s ago
};

}  // namespace bitrift::campaign
