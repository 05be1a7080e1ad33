#include "h5/module.h"

#include <dlfcn.h>

namespace bitrift::h5 {
namespace {

constexpr const char* kFile = "bitrift-hdf5.so";

[[noreturn]] void fail_loading() {
  const char* const reason = ::dlerror();
  fail(ErrorCode::unsupported,
       "HDF5's library, whose filters this needs, cannot be loaded: {}; {} belongs beside this program or in "
       "../lib from there",
       reason != nullptr ? reason : "no reason given", kFile);
}

const Module& load() {
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail_loading();
  void* const symbol = ::dlsym(library, kModuleSymbol);
  if (symbol == nullptr) fail_loading();
  const Module& module = *reinterpret_cast<const Module* (*)()>(symbol)();
  // Everything that is set up once is set up now: a child that is forked while another thread is at it would
  // wait for that thread for ever.
  std::string version;
  std::string error;
  if (module.version(version, error) != 0) fail(ErrorCode::unsupported, "{}: {}", kFile, error);
  return module;
}

}  // namespace

const Module& load_module() {
  static const Module& module = load();
  return module;
}

void expose_module() {
  static_cast<void>(load_module());
  if (::dlopen(kFile, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) == nullptr) fail_loading();
}

std::string filter_library_version() {
  std::string version;
  std::string error;
  const int status = load_module().version(version, error);
  if (status != 0) throw Error(static_cast<ErrorCode>(status - 1), error);
  return version;
}

}  // namespace bitrift::h5
