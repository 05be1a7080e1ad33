#include "campaign/plan/limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "core/byte_size.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"

namespace bitrift::campaign {
namespace {

const std::filesystem::path proc = "/proc";

// Fourth field of /proc/PID/stat; the second is a name in parentheses that may hold anything.
std::optional<pid_t> parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const auto name_end = text.rfind(") ");
  if (name_end == std::string::npos || text.size() < name_end + 5) return std::nullopt;
  pid_t parent = 0;
  const char* const begin = text.data() + name_end + 4;
  if (std::from_chars(begin, text.data() + text.size(), parent).ec != std::errc()) return std::nullopt;
  return parent;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(proc, ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    if (const auto parent = parent_of(entry.path())) children.emplace(*parent, pid);
  }
  return children;
}

// 0 for a process that has ended.
std::uint64_t held_by(pid_t pid) {
  std::ifstream file(proc / std::to_string(pid) / "status");
  std::uint64_t total = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("RssAnon:") && !line.starts_with("RssShmem:")) continue;
    const auto digits = line.find_first_of("0123456789");
    std::uint64_t kibibytes = 0;
    if (digits == std::string::npos) continue;
    std::from_chars(line.data() + digits, line.data() + line.size(), kibibytes);
    total += kibibytes * 1024;
  }
  return total;
}

void shorten(const std::filesystem::path& log, std::uint64_t most) {
  const FileDescriptor fd = open_file(log, O_RDWR | O_APPEND);
  const std::uint64_t size = std::filesystem::file_size(log);
  std::string tail(most / 16, '\0');
  read_at(fd, tail.data(), tail.size(), size - tail.size(), log);
  const auto line_end = tail.find('\n');
  if (line_end != std::string::npos) tail.erase(0, line_end + 1);
  const std::string text =
      fmt::format("[the log had {}; its older part was cut off]\n{}", byte_size_text(size), tail);
  if (ftruncate(fd.get(), 0) != 0) return;
  [[maybe_unused]] const auto written = write(fd.get(), text.data(), text.size());
}

}  // namespace

std::uint64_t resident_memory(const std::vector<pid_t>& roots) {
  const auto children = children_by_parent();
  std::set<pid_t> all;
  std::vector<pid_t> waiting = roots;
  while (!waiting.empty()) {
    const pid_t pid = waiting.back();
    waiting.pop_back();
    if (!all.insert(pid).second) continue;
    const auto [begin, end] = children.equal_range(pid);
    std::for_each(begin, end, [&](const auto& child) { waiting.push_back(child.second); });
  }
  std::uint64_t total = 0;
  for (const pid_t pid : all) total += held_by(pid);
  return total;
}

record::Failure memory_failure(std::uint64_t limit) {
  return {record::FailureReason::exception,
          fmt::format("its worker took more memory than worker.memory allows ({} bytes)", limit), 0};
}

void cut_log(const std::filesystem::path& log, std::uint64_t most) noexcept {
  try {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(log, error);
    if (!error && size > most) shorten(log, most);
  } catch (const std::exception& error) {
    spdlog::debug("{}: cannot be cut: {}", log.string(), error.what());
  }
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace bitrift::campaign
