#include "campaign/folder/work_place.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>

#include <sys/statvfs.h>
#include <unistd.h>

#include "campaign/worker/scratch.h"
#include "core/error.h"
#include "core/log.h"

namespace bitrift::campaign {
namespace {

constexpr std::uint64_t room_factor = 2;
// MPI's own segments are there too; a rank whose segment finds no room dies by SIGBUS.
constexpr std::uint64_t room_for_mpi = std::uint64_t{256} << 20U;
constexpr std::uint64_t memory_share = 4;
constexpr std::string_view suffix = "copies";
constexpr const char* link_name = "elsewhere";

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  if (!(stream >> number)) return std::nullopt;  // "max" is not a number: no limit
  return number;
}

std::optional<std::uint64_t> memory_of_system() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    const auto digits = line.find_first_of("0123456789");
    std::uint64_t kibibytes = 0;
    if (digits == std::string::npos) break;
    std::from_chars(line.data() + digits, line.data() + line.size(), kibibytes);
    return kibibytes * 1024;
  }
  return std::nullopt;
}

// "0::/some/group" names this process' group below the mount point.
std::filesystem::path control_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return std::filesystem::path("/sys/fs/cgroup") / line.substr(4);
  }
  return {};
}

// Whether a folder has the name that scratch_name() gives to copies of some campaign of this user: nothing
// else may ever be removed because of a link.
bool is_ours(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  return folder.is_absolute() && is_scratch_name(name) && name.ends_with(suffix);
}

void remove_linked(const std::filesystem::path& link) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink(link, error);
  if (error) return;
  if (is_ours(folder)) std::filesystem::remove_all(folder, error);
  std::filesystem::remove(link, error);
}

void make(const std::filesystem::path& folder, const char* what) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "{}{}: cannot be made: {}", what, folder.string(), error.message());
}

}  // namespace

std::uint64_t free_space(const std::filesystem::path& path) {
  auto place = std::filesystem::absolute(path);
  std::error_code ignored;
  while (!std::filesystem::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  struct statvfs info {};
  if (statvfs(place.c_str(), &info) != 0) {
    fail(ErrorCode::io, "{}: cannot tell how much space is free: {}", place.string(), errno_text(errno));
  }
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

std::uint64_t available_memory() {
  const auto system = memory_of_system();
  if (!system) return 0;
  std::uint64_t available = *system;
  for (auto group = control_group(); group.has_relative_path(); group = group.parent_path()) {
    const auto most = number_in(group / "memory.max");
    const auto taken = number_in(group / "memory.current");
    if (most && taken) available = std::min(available, *most - std::min(*most, *taken));
    if (group.filename() == "cgroup") break;
  }
  return available;
}

void remove_work(const std::filesystem::path& inside) noexcept {
  try {
    std::error_code ignored;
    remove_linked(inside / link_name);
    std::filesystem::remove_all(inside, ignored);
  } catch (const std::exception& error) {
    spdlog::debug("{}: cannot be removed: {}", inside.string(), error.what());
  }
}

WorkPlace::WorkPlace(const WorkQuestion& question) : link_(question.inside / link_name) {
  make(question.inside, "");
  remove_linked(link_);
  remove_abandoned_scratch(question.memory);
  if (question.asked) {
    make(*question.asked, "--work-dir ");
    use(std::filesystem::absolute(*question.asked), question.root);
    return;
  }
  folder_ = question.inside;
  if (!question.memory_serves || access(question.memory.c_str(), W_OK) != 0) return;
  const std::uint64_t free = free_space(question.memory);
  if (free < room_for_mpi || (free - room_for_mpi) / room_factor < question.bytes) return;
  if (available_memory() / memory_share < question.bytes) return;
  try {
    use(question.memory, question.root);
  } catch (const Error&) {
    folder_ = question.inside;  // another user's folder has this name, or links cannot be made
  }
}

void WorkPlace::use(const std::filesystem::path& parent, const std::filesystem::path& root) {
  const auto folder = parent / scratch_name(root, std::string(suffix));
  std::error_code error;
  // The link comes first: a folder that nobody knows about would stay for ever.
  std::filesystem::create_directory_symlink(folder, link_, error);
  if (error) {
    fail(ErrorCode::io, "{}: cannot be made for the workers' copies: {}", folder.string(), error.message());
  }
  try {
    elsewhere_.emplace(folder);
  } catch (const Error&) {
    std::filesystem::remove(link_, error);
    throw;
  }
  folder_ = folder;
}

WorkPlace::~WorkPlace() {
  if (!elsewhere_) return;
  elsewhere_.reset();
  std::error_code ignored;
  std::filesystem::remove(link_, ignored);
}

std::filesystem::path WorkPlace::copy(const std::string& worker) const {
  const auto folder = folder_ / worker;
  make(folder, "");
  return folder / "ckpt.h5";
}

}  // namespace bitrift::campaign
