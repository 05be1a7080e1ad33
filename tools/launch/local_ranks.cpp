#include "launch/local_ranks.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace bitrift::cli {
namespace {

namespace fs = std::filesystem;

// Where Open MPI keeps the memory that ranks of one machine share: sm_segment.HOST.USER.JOB.RANK.
constexpr const char* shared_memory = "/dev/shm";
constexpr std::string_view segment_start = "sm_segment.";

std::set<pid_t> children_of(pid_t process) {
  std::set<pid_t> children;
  std::error_code error;
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) children.insert(child);
  }
  return children;
}

std::set<pid_t> all_processes() {
  std::set<pid_t> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec == std::errc())
      all.insert(process);
  }
  return all;
}

// Nothing once it has ended: its number may be another program's then.
std::vector<std::string> environment_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process));
  std::vector<std::string> all;
  for (std::string one; std::getline(file, one, '\0');) all.push_back(one);
  return all;
}

void remove_job(const std::string& job) noexcept {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(shared_memory, error)) {
    const std::string name = entry.path().filename().string();
    const bool of_job = name.starts_with(job + '.') &&
                        name.find_first_not_of("0123456789", job.size() + 1) == std::string::npos;
    struct stat info {};
    if (!of_job || ::lstat(entry.path().c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode) && info.st_uid == ::geteuid()) ::unlink(entry.path().c_str());
  }
}

}  // namespace

bool runs_this_program(pid_t process) {
  std::error_code error;
  const fs::path theirs = fs::read_symlink(fmt::format("/proc/{}/exe", process), error);
  return !error && theirs == fs::read_symlink("/proc/self/exe", error) && !error;
}

LocalRanks::LocalRanks(pid_t launcher, std::string mark, std::filesystem::path notes)
    : launcher_(launcher), mark_(std::move(mark)), notes_(std::move(notes)) {}

bool LocalRanks::look() {
  const std::set<pid_t> children = children_of(launcher_);
  for (const pid_t rank : seen_) {
    // One that has ended is still a child until mpirun has asked how, and has no program then.
    if (!children.contains(rank) || !runs_this_program(rank)) lost_ = true;
  }
  for (const pid_t child : children) {
    if (!runs_this_program(child)) continue;
    if (seen_.insert(child).second) arrived(child);
    if (!mapped_.contains(child)) find_segments(child);
  }
  // mpirun starts all ranks of a machine without a pause.
  constexpr auto pause = std::chrono::seconds(3);
  if (seen_.size() < expected_ && Clock::now() - last_arrival_ > pause) lost_ = true;
  return lost_;
}

void LocalRanks::arrived(pid_t rank) {
  constexpr std::string_view name = "OMPI_COMM_WORLD_LOCAL_SIZE=";
  last_arrival_ = Clock::now();
  if (expected_ > 0) return;
  for (const std::string& one : environment_of(rank)) {
    if (one.starts_with(name)) std::from_chars(one.data() + name.size(), one.data() + one.size(), expected_);
  }
}

void LocalRanks::find_segments(pid_t rank) {
  const std::string start = fmt::format("{}/{}", shared_memory, segment_start);
  std::ifstream maps(fmt::format("/proc/{}/maps", rank));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find(start);
    if (at == std::string::npos) continue;
    mapped_.insert(rank);
    std::string job = fs::path(line.substr(at)).filename().string();
    job.resize(job.rfind('.'));
    if (segments_.insert(job).second) std::ofstream(notes_, std::ios::app) << job << '\n';
    return;
  }
}

bool LocalRanks::is_marked(pid_t process) const {
  const std::vector<std::string> environment = environment_of(process);
  return std::find(environment.begin(), environment.end(), mark_) != environment.end();
}

void LocalRanks::clean_up(bool killed) const {
  constexpr auto pause = std::chrono::milliseconds(5);
  constexpr int looks = 400;
  for (int left = looks; left > 0; --left) {
    bool any = false;
    for (const pid_t rank : killed ? all_processes() : seen_) {
      if (!is_marked(rank)) continue;
      any = true;
      ::kill(rank, SIGKILL);
    }
    if (!any) break;
    std::this_thread::sleep_for(pause);
  }
  for (const std::string& job : segments_) remove_job(job);
}

void remove_noted_segments(const std::filesystem::path& notes) noexcept {
  std::ifstream file(notes);
  for (std::string job; std::getline(file, job);) {
    if (job.starts_with(segment_start) && job.find('/') == std::string::npos) remove_job(job);
  }
}

}  // namespace bitrift::cli
