#include "campaign/progress.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace bitrift::campaign {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear_line(); }

void Progress::stage(const std::string& name, std::size_t done, std::size_t total) {
  clear_line();
  stage_ = name;
  done_ = done_before_ = done;
  total_ = total;
  began_ = Clock::now();
  print(false);
}

void Progress::advance() {
  ++done_;
  const double every = terminal_ ? 0.1 : 10;
  if (done_ == total_ || seconds_since(printed_) >= every) print(done_ == total_);
}

void Progress::note(const std::string& text) {
  if (quiet_) return;
  clear_line();
  std::fputs((text + "\n").c_str(), stderr);
}

void Progress::print(bool last) {
  if (quiet_) return;
  printed_ = Clock::now();
  std::string line = fmt::format("{}: {}/{} runs", stage_, done_, total_);
  const double spent = seconds_since(began_);
  const auto here = static_cast<double>(done_ - done_before_);
  if (here > 0 && spent > 0) {
    line += fmt::format(", {:.1f} a second", here / spent);
    if (!last) line += fmt::format(", {:.0f} s left", static_cast<double>(total_ - done_) * spent / here);
  }
  if (incidents_ > 0) line += fmt::format(", {} incident{}", incidents_, incidents_ == 1 ? "" : "s");
  if (!terminal_) {
    std::fputs((line + "\n").c_str(), stderr);
    return;
  }
  std::fputs(("\r\x1b[K" + line).c_str(), stderr);
  std::fflush(stderr);
  line_open_ = true;
  if (last) clear_line();
}

void Progress::clear_line() {
  if (!line_open_) return;
  std::fputs("\n", stderr);
  line_open_ = false;
}

}  // namespace bitrift::campaign
