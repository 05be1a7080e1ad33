// What a person sees while a campaign runs: on stderr, so that stdout carries results only.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace bitrift::campaign {

/// One line that is rewritten on a terminal; elsewhere a plain line at each stage and every ten seconds.
class Progress {
 public:
  /// Looks at stderr. quiet: prints nothing.
  explicit Progress(bool quiet = false);
  ~Progress();
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  /// A new stage of `total` runs, `done` of which an earlier start did.
  void stage(const std::string& name, std::size_t done, std::size_t total);
  /// One more run is over.
  void advance();
  /// `runs` that were over are not.
  void take_back(std::size_t runs) { done_ -= runs; }
  void incident() { ++incidents_; }
  /// A line of its own.
  void note(const std::string& text);

 private:
  void print(bool last);
  void clear_line();

  bool quiet_;
  bool terminal_;
  bool line_open_ = false;
  std::string stage_;
  std::size_t done_ = 0, total_ = 0, done_before_ = 0, incidents_ = 0;
  std::chrono::steady_clock::time_point began_, printed_;
};

}  // namespace bitrift::campaign
