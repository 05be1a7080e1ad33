// The places of the files that a wheel of tools/wheel contains or depends on, relative to a program in it.
#pragma once

#include <filesystem>
#include <optional>

namespace bitrift {

/// auditwheel moves programs to ENVIRONMENT/lib/python3.N/site-packages/bitrift.scripts, where their
/// libraries are at a fixed relative path, and leaves scripts in ENVIRONMENT/bin that start them.
struct WheelPlaces {
  std::filesystem::path bin;   ///< of the environment: python3, mpiexec
  std::filesystem::path data;  ///< the data sets that come with the wheel
};

/// The places of a program in such a folder; empty for any other program.
[[nodiscard]] std::optional<WheelPlaces> wheel_places(const std::filesystem::path& program);
/// The same for the program that is running.
[[nodiscard]] std::optional<WheelPlaces> wheel_places();

}  // namespace bitrift
