#include "record.h"

#include <cstdlib>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "settings.h"

namespace fake_device {

Calls::Calls(const std::string& name) {
  const std::string text = forgotten();
  if (text.starts_with(name + ":")) chosen_ = std::atol(text.c_str() + name.size() + 1);
}

bool Calls::forgets() {
  const std::lock_guard lock(mutex_);
  ++count_;
  return chosen_ && (*chosen_ == 0 || *chosen_ == count_);
}

void Record::use(int device) {
  const std::lock_guard lock(mutex);
  devices.insert(device);
}

void Record::operation(const std::string& name) {
  const std::lock_guard lock(mutex);
  ++operations[name];
}

void Record::write() {
  const std::lock_guard lock(mutex);
  const std::string path = log_file();
  if (path.empty() || operations.empty()) return;
  const nlohmann::json all = {{"to_host", to_host.count()},
                              {"to_device", to_device},
                              {"synchronizations", synchronizations.count()},
                              {"devices", devices},
                              {"operations", operations}};
  const std::string line = all.dump() + "\n";
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  [[maybe_unused]] const auto written = ::write(file, line.data(), line.size());
  ::close(file);
}

Record& record() {
  static auto* const one = new Record;
  return *one;
}

}  // namespace fake_device
