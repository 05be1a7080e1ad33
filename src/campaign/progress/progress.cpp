#include "campaign/progress/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace bitrift::campaign {
namespace {

constexpr double seconds_between_marks = 30;
constexpr std::size_t bar_width = 20;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The width of the terminal at stderr; a line of exactly that width would wrap in some terminals.
std::size_t columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 79;
  return size.ws_col - std::size_t{1};
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(std::clamp(seconds, 0.0, 1e15)));
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 172800) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
}

std::string bar_text(std::size_t done, std::size_t total, std::size_t width) {
  const std::size_t filled = total == 0 ? width : std::min(done, total) * width / total;
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "]";
}

std::string fitted(std::string line, std::size_t columns) {
  if (line.size() <= columns) return line;
  line.resize(columns < 3 ? columns : columns - 3);
  return columns < 3 ? line : line + "...";
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::stage(const std::string& name, std::size_t done, std::size_t total) {
  clear();
  stage_ = name;
  done_ = done;
  total_ = total;
  began_ = Clock::now();
  recent_ = before_ = {began_, done};
  print();
}

void Progress::advance() {
  ++done_;
  if (seconds_since(recent_.time) >= seconds_between_marks) {
    before_ = recent_;
    recent_ = {Clock::now(), done_};
  }
  const double every = terminal_ ? 0.1 : std::clamp(seconds_since(began_) / 10, 10.0, 300.0);
  if (done_ == total_ || seconds_since(printed_) >= every) print();
  if (done_ == total_) clear();
}

void Progress::tick() {
  if (terminal_ && lines_shown_ > 0 && seconds_since(printed_) >= 1) print();
}

void Progress::note(const std::string& text) {
  clear();
  std::fputs((text + "\n").c_str(), stderr);
}

double Progress::per_second() const {
  const double spent = seconds_since(before_.time);
  // Retracted rows can make the count lower than the mark.
  return spent > 0 && done_ > before_.done ? static_cast<double>(done_ - before_.done) / spent : 0;
}

std::string Progress::counts(double rate) const {
  std::string line = fmt::format("{}/{} runs", done_, total_);
  if (rate > 0) line += fmt::format(", {:.{}f} a second", rate, rate < 1 ? 3 : 1);
  if (rate > 0 && done_ < total_) {
    line += fmt::format(", {} left", duration_text(static_cast<double>(total_ - done_) / rate));
  }
  if (incidents_ > 0) line += fmt::format(", {} incident{}", incidents_, incidents_ == 1 ? "" : "s");
  return line;
}

void Progress::print() {
  printed_ = Clock::now();
  const std::string counted = counts(per_second());
  std::vector<std::string> lines = {
      terminal_ ? fmt::format("{} {} {}", stage_, bar_text(done_, total_, bar_width), counted)
                : stage_ + ": " + counted};
  if (rates_ != nullptr) {
    for (const std::string& line : rates_->lines()) lines.push_back("  " + line);
  }
  if (terminal_) return rewrite(lines);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  std::fputs(text.c_str(), stderr);
}

void Progress::rewrite(const std::vector<std::string>& lines) {
  const std::size_t width = columns();
  std::string text = "\r";
  if (lines_shown_ > 1) text += fmt::format("\x1b[{}A", lines_shown_ - 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\n";
    text += fitted(lines[i], width) + "\x1b[K";
  }
  text += "\x1b[J";  // lines that were there and are not any more
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  lines_shown_ = lines.size();
}

void Progress::clear() {
  if (lines_shown_ == 0) return;
  std::fputs("\n", stderr);
  lines_shown_ = 0;
}

}  // namespace bitrift::campaign
