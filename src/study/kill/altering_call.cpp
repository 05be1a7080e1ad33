#include "study/kill/altering_call.h"

#include <algorithm>
#include <climits>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

namespace bitrift::study {
namespace {

constexpr int none = -1;

// A name that a call alters: the arguments for its folder's descriptor (none: the working folder) and for its
// text.
struct NameAt {
  int folder = none, text = none;
};

// The arguments that say what a call alters. Numbers are those of arguments.
struct Rule {
  long number;
  const char* name;
  int descriptor = none;
  std::vector<NameAt> names = {};
  int flags = none;  // open(2): only with O_CREAT or O_TRUNC
  int bytes = none;  // write(2), pwrite(2)
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {.number = SYS_write, .name = "write", .descriptor = 0, .bytes = 2},
      {.number = SYS_pwrite64, .name = "pwrite64", .descriptor = 0, .bytes = 2},
      {.number = SYS_writev, .name = "writev", .descriptor = 0},
      {.number = SYS_pwritev, .name = "pwritev", .descriptor = 0},
      {.number = SYS_pwritev2, .name = "pwritev2", .descriptor = 0},
      {.number = SYS_ftruncate, .name = "ftruncate", .descriptor = 0},
      {.number = SYS_fallocate, .name = "fallocate", .descriptor = 0},
      {.number = SYS_sendfile, .name = "sendfile", .descriptor = 0},
      {.number = SYS_copy_file_range, .name = "copy_file_range", .descriptor = 2},
      {.number = SYS_splice, .name = "splice", .descriptor = 2},
      {.number = SYS_truncate, .name = "truncate", .names = {{none, 0}}},
      {.number = SYS_openat, .name = "openat", .names = {{0, 1}}, .flags = 2},
      {.number = SYS_openat2, .name = "openat2", .names = {{0, 1}}},
      {.number = SYS_mkdirat, .name = "mkdirat", .names = {{0, 1}}},
      {.number = SYS_unlinkat, .name = "unlinkat", .names = {{0, 1}}},
      {.number = SYS_renameat2, .name = "renameat2", .names = {{0, 1}, {2, 3}}},
      {.number = SYS_linkat, .name = "linkat", .names = {{2, 3}}},
      {.number = SYS_symlinkat, .name = "symlinkat", .names = {{1, 2}}},
#ifdef SYS_renameat
      {.number = SYS_renameat, .name = "renameat", .names = {{0, 1}, {2, 3}}},
#endif
#ifdef SYS_open  // architectures that also have the calls without folders
      {.number = SYS_open, .name = "open", .names = {{none, 0}}, .flags = 1},
      {.number = SYS_creat, .name = "creat", .names = {{none, 0}}},
      {.number = SYS_mkdir, .name = "mkdir", .names = {{none, 0}}},
      {.number = SYS_rmdir, .name = "rmdir", .names = {{none, 0}}},
      {.number = SYS_unlink, .name = "unlink", .names = {{none, 0}}},
      {.number = SYS_rename, .name = "rename", .names = {{none, 0}, {none, 1}}},
      {.number = SYS_link, .name = "link", .names = {{none, 1}}},
      {.number = SYS_symlink, .name = "symlink", .names = {{none, 1}}},
#endif
  };
  return all;
}

std::uint64_t argument(const SystemCall& call, int index) {
  return call.arguments.at(static_cast<std::size_t>(index));
}

std::filesystem::path link_of(pid_t thread, const std::string& name) {
  std::error_code ignored;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/{}", thread, name), ignored);
}

std::filesystem::path file_of(pid_t thread, std::uint64_t descriptor) {
  return link_of(thread, fmt::format("fd/{}", static_cast<int>(descriptor)));
}

// The text at an address of a stopped process. A page at a time, because the next one may not exist.
std::string text_at(pid_t thread, std::uint64_t address) {
  constexpr std::uint64_t page = 4096;
  std::string text;
  while (text.size() < PATH_MAX) {
    std::array<char, page> buffer{};
    const std::uint64_t here = page - address % page;
    iovec mine{buffer.data(), here};
    iovec other{reinterpret_cast<void*>(address), here};  // NOLINT(performance-no-int-to-ptr): of the other
    const ssize_t got = ::process_vm_readv(thread, &mine, 1, &other, 1, 0);
    if (got <= 0) break;
    const char* const end = buffer.data() + got;
    const char* const zero = std::find(static_cast<const char*>(buffer.data()), end, '\0');
    text.append(static_cast<const char*>(buffer.data()), zero);
    if (zero != end) break;
    address += static_cast<std::uint64_t>(got);
  }
  return text;
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto relative = path.lexically_normal().lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

bool names_in(pid_t thread, const SystemCall& call, const NameAt& name, const std::filesystem::path& folder) {
  const std::filesystem::path text = text_at(thread, argument(call, name.text));
  if (text.is_absolute()) return lies_in(text, folder);
  const bool working = name.folder == none || static_cast<int>(argument(call, name.folder)) == AT_FDCWD;
  return lies_in((working ? link_of(thread, "cwd") : file_of(thread, argument(call, name.folder))) / text,
                 folder);
}

// A mapping that other processes see, and that can be written.
bool maps_for_writing(const SystemCall& call) {
  constexpr std::uint64_t shared = MAP_SHARED;
  return (call.arguments[2] & std::uint64_t{PROT_WRITE}) != 0 && (call.arguments[3] & shared) != 0 &&
         static_cast<int>(call.arguments[4]) >= 0;
}

}  // namespace

std::optional<AlteringCall> altering_call(pid_t thread, const SystemCall& call,
                                          const std::filesystem::path& folder) {
  if (call.number == static_cast<std::uint64_t>(SYS_mmap)) {
    if (maps_for_writing(call) && lies_in(file_of(thread, call.arguments[4]), folder))
      return AlteringCall{"mmap"};
    return std::nullopt;
  }
  const auto rule = std::find_if(rules().begin(), rules().end(), [&](const Rule& one) {
    return static_cast<std::uint64_t>(one.number) == call.number;
  });
  if (rule == rules().end()) return std::nullopt;
  if (rule->flags != none && (argument(call, rule->flags) & std::uint64_t{O_CREAT | O_TRUNC}) == 0)
    return std::nullopt;
  const bool there =
      (rule->descriptor != none && lies_in(file_of(thread, argument(call, rule->descriptor)), folder)) ||
      std::any_of(rule->names.begin(), rule->names.end(),
                  [&](const NameAt& name) { return names_in(thread, call, name, folder); });
  if (!there) return std::nullopt;
  return AlteringCall{rule->name, rule->bytes == none ? 0 : argument(call, rule->bytes)};
}

}  // namespace bitrift::study
