// Loads the fake device into programs that are linked to LibTorch, and into no other one that inherits
// LD_PRELOAD: LibTorch takes 0.3 s of a core to load, and mpirun, shells and `bitrift` do not need it.
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

namespace {

void* device = nullptr;

[[gnu::constructor]] void load() {
  if (::dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD) == nullptr) return;
  Dl_info here{};
  if (::dladdr(&device, &here) == 0) return;
  const std::string path(here.dli_fname);
  device = ::dlopen((path.substr(0, path.rfind('/') + 1) + "fake_device.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (device == nullptr) {
    const char* const error = ::dlerror();
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, error, std::strlen(error));
    ::_exit(3);
  }
}

}  // namespace

// bitrift-train ends with this, without the destructors of static objects.
extern "C" [[noreturn]] void _Exit(int code) noexcept {
  using Write = void (*)();
  if (device != nullptr) {
    if (auto* const write = reinterpret_cast<Write>(::dlsym(device, "fake_device_write_record"))) write();
  }
  ::_exit(code);
}

// Open MPI's own answer is no. Where the host can read the device's memory, so can MPI.
extern "C" int MPIX_Query_cuda_support() {
  using Query = int (*)();
  if (device == nullptr) return 0;
  auto* const query = reinterpret_cast<Query>(::dlsym(device, "fake_device_is_read_by_mpi"));
  return query != nullptr ? query() : 0;
}
