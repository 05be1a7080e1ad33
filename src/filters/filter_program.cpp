#include "filters/filter_program.h"

#include <cstdlib>
#include <memory>
#include <mutex>

#include <dlfcn.h>
#include <unistd.h>

#include "core/error.h"
#include "filters/filter_request.h"

namespace bitrift::h5 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "bitrift-hdf5";

/// The places where it may be: where programs are installed together with the shared object that this code is
/// in (lib/python3.N/site-packages/bitrift, if that is Python's; bitrift.scripts is next to it in a wheel of
/// tools/wheel) or with this program.
std::vector<fs::path> likely_folders() {
  std::vector<fs::path> folders;
  const auto add_around = [&folders](const fs::path& own) {
    for (const char* const step : {".", "../bitrift.scripts", "../bin", "../../bin", "../../../../bin"})
      folders.push_back(own / step);
  };
  std::error_code none;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&likely_folders), &info) != 0 && info.dli_fname != nullptr) {
    add_around(fs::path(info.dli_fname).parent_path());
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (!none) add_around(program.parent_path());
  return folders;
}

fs::path find_program(const std::string& where) {
  for (const fs::path& folder : likely_folders()) {
    if (::access((folder / kProgram).c_str(), X_OK) == 0) return folder / kProgram;
  }
  fail(ErrorCode::unsupported,
       "{}: needs filters of HDF5's library, and the program {} that has them is missing: it belongs beside "
       "this program or in ../bin from there",
       where, kProgram);
}

/// A process, and the place where HDF5 looks for plugins in it.
struct Process {
  std::unique_ptr<Confined> program;
  std::string plugins;
};

/// The processes that are idle now. Never destroyed: the processes end when their channels close with this
/// process.
struct Idle {
  std::mutex lock;
  std::vector<Process> processes;
  pid_t owner = ::getpid();
};
Idle& idle() {
  static auto* const instance = new Idle;
  return *instance;
}

Process take(const std::string& where) {
  const char* const set = std::getenv("HDF5_PLUGIN_PATH");
  const std::string plugins = set != nullptr ? set : "";
  const std::lock_guard guard(idle().lock);
  auto& processes = idle().processes;
  if (idle().owner != ::getpid()) {
    // After a fork (Python's multiprocessing) they still answer the process that started them, and no other.
    for (Process& one : processes)
      static_cast<void>(one.program.release());  // NOLINT(bugprone-unused-return-value)
    processes.clear();
    idle().owner = ::getpid();
  }
  std::erase_if(processes, [&](const Process& one) { return one.plugins != plugins; });
  if (processes.empty()) return {std::make_unique<Confined>(find_program(where)), plugins};
  Process one = std::move(processes.back());
  processes.pop_back();
  return one;
}

void give_back(Process one) {
  const std::lock_guard guard(idle().lock);
  idle().processes.push_back(std::move(one));
}

}  // namespace

std::vector<std::uint8_t> ask_filter_program(std::span<const std::uint8_t> request, const std::string& where,
                                             const ConfinedLimits& limits) {
  Process process = take(where);
  try {
    std::vector<std::uint8_t> answer = process.program->call(request, where, limits);
    give_back(std::move(process));
    return answer;
  } catch (const Error&) {
    give_back(std::move(process));
    throw;
  }
}

std::string filter_library_version() {
  const auto answer = ask_filter_program(FilterRequest{}.packed(), "HDF5", {});
  const StoredChunk text = unpacked_chunk(answer);
  return {text.bytes.begin(), text.bytes.end()};
}

}  // namespace bitrift::h5
