// HDF5's library behind a door: a shared object that is loaded when something first needs it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"
#include "h5/pipeline.h"

namespace bitrift::h5 {

/// libhdf5 and what it is built on are some thirty libraries, which take longer to load than most commands
/// run. Of all that bitrift does to files only the filters that are not its own need them, so they are linked
/// to bitrift-hdf5.so (tools/bitrift-hdf5) and not to the programs.
struct Module {
  enum class Task : std::uint8_t { decode, encode };
  /// 0, or 1 + the ErrorCode of the error whose text is in `error`. Never throws.
  using Run = int (*)(const PipelineSpec& spec, const std::string& where, Task task,
                      std::span<const std::uint8_t> bytes, std::uint32_t mask, StoredChunk& result,
                      std::string& error) noexcept;
  /// Of the HDF5 library; returns what Run does.
  using Version = int (*)(std::string& version, std::string& error) noexcept;

  Run run = nullptr;
  Version version = nullptr;
};

/// The symbol of the shared object: a function `const Module*()`. It changes its name when Module changes.
inline constexpr const char* kModuleSymbol = "bitrift_hdf5_module_1";

/// Loads it at the first call; it stays. Looked for in the folders that the program was linked to look in.
/// Throws Error(unsupported) when it cannot be loaded.
[[nodiscard]] const Module& load_module();

/// Lets everything that is loaded later find the functions of its HDF5 library, as some plugins want (blosc
/// looks them up by name). For child processes: in a Python that has h5py they would hide those of another
/// HDF5.
void expose_module();

/// Version of the HDF5 library that the filters run in, "1.10.8". Throws as load_module() does.
[[nodiscard]] std::string filter_library_version();

}  // namespace bitrift::h5
