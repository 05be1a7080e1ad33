// The program bitrift-hdf5 and its idle processes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/process/confined.h"

namespace bitrift::h5 {

/// Asks a process of bitrift-hdf5 that is idle, or a new one: at most as many run as threads ever asked at
/// once, and they end with this process. libhdf5 and the libraries that it needs are about thirty, which take
/// longer to load than most commands run, and plugins bind to the first HDF5 that they meet, which in Python
/// may be h5py's: so all of that lives in a separate program. It is looked for next to this program or the
/// shared object that this code is in, and in ../bin from there (for the site-packages of a Python
/// environment: its bin). Any number of threads. Throws as Confined::call(), and Error(unsupported) when it
/// is missing.
[[nodiscard]] std::vector<std::uint8_t> ask_filter_program(std::span<const std::uint8_t> request,
                                                           const std::string& where,
                                                           const ConfinedLimits& limits);

/// Version of the HDF5 library that the filters run in, "1.10.8". Throws as ask_filter_program() does.
[[nodiscard]] std::string filter_library_version();

}  // namespace bitrift::h5
