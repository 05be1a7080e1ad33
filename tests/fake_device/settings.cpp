#include "settings.h"

#include <algorithm>
#include <cstdlib>

namespace fake_device {
namespace {

std::string setting(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : otherwise;
}

}  // namespace

int devices() {
  static const int count =
      std::clamp(std::atoi(setting("BITRIFT_FAKE_DEVICES", "1").c_str()), 1, most_devices);
  return count;
}

bool works_later() {
  static const bool later = setting("BITRIFT_FAKE_WORK", "now") == "later";
  return later;
}

std::string log_file() { return setting("BITRIFT_FAKE_LOG", ""); }

std::string forgotten() { return setting("BITRIFT_FAKE_FORGET", ""); }

}  // namespace fake_device
