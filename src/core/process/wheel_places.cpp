#include "core/process/wheel_places.h"

#include <system_error>

namespace bitrift {

std::optional<WheelPlaces> wheel_places(const std::filesystem::path& program) {
  const std::filesystem::path folder = program.parent_path();
  if (folder.filename() != "bitrift.scripts") return std::nullopt;
  const std::filesystem::path packages = folder.parent_path();
  const std::filesystem::path environment = packages.parent_path().parent_path().parent_path();
  return WheelPlaces{environment / "bin", packages / "bitrift" / "data"};
}

std::optional<WheelPlaces> wheel_places() {
  std::error_code none;
  return wheel_places(std::filesystem::read_symlink("/proc/self/exe", none));
}

}  // namespace bitrift
