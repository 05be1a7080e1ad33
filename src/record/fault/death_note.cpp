#include "record/fault/death_note.h"

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace bitrift::record {

void leave_death_note(const std::filesystem::path& file, const DeathNote& note) noexcept {
  char line[100];
  const auto end = fmt::format_to_n(line, sizeof line, "{:.9f} {} {} {}\n", note.time, note.rank, note.step,
                                    name_of(note.phase));
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(descriptor, line, end.size);
  ::close(descriptor);
}

std::vector<DeathNote> death_notes(const std::filesystem::path& file) {
  std::vector<DeathNote> notes;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    std::istringstream words(line);
    DeathNote one;
    std::string phase;
    if (!(words >> one.time >> one.rank >> one.step >> phase)) continue;
    const auto known = find_named<TrainingPhase>(phase);
    if (!known) continue;
    one.phase = *known;
    notes.push_back(one);
  }
  return notes;
}

std::optional<DeathNote> last_death_note(const std::filesystem::path& file, double until) {
  std::optional<DeathNote> latest;
  for (const DeathNote& one : death_notes(file)) {
    if (one.time <= until && (!latest || one.time > latest->time)) latest = one;
  }
  return latest;
}

double monotonic_seconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace bitrift::record
