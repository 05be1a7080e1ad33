// bitrift-hdf5.so: the one part of bitrift that is linked to HDF5's library for its filters.
#include "h5/module.h"

#include "h5/library.h"
#include "h5/memory_chunk.h"

namespace {

using bitrift::Error;
using bitrift::ErrorCode;
using bitrift::h5::Module;

/// No exception may leave: its types here are not those of the program.
template <typename Work>
int guarded(std::string& error, Work work) noexcept {
  try {
    work();
    return 0;
  } catch (const Error& failure) {
    error = failure.what();
    return 1 + static_cast<int>(failure.code());
  } catch (const std::exception& failure) {
    error = failure.what();
    return 1 + static_cast<int>(ErrorCode::bad_file);
  }
}

int run(const bitrift::h5::PipelineSpec& spec, const std::string& where, Module::Task task,
        std::span<const std::uint8_t> bytes, std::uint32_t mask, bitrift::h5::StoredChunk& result,
        std::string& error) noexcept {
  return guarded(error, [&] {
    const bitrift::h5::Scope scope;
    bitrift::h5::MemoryChunk chunk(spec, where);
    if (task == Module::Task::encode) {
      result = chunk.encode(bytes);
    } else {
      result = {chunk.decode(bytes, mask), 0};
    }
  });
}

int version(std::string& text, std::string& error) noexcept {
  return guarded(error, [&] { text = bitrift::h5::library_version(); });
}

constexpr Module module = {run, version};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* bitrift_hdf5_module_1() { return &module; }
