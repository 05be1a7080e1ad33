// What a process did with fake devices, and what it is to forget.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace fake_device {

/// Calls of one kind, some of which are errors that a test plants (settings.h, forgotten()).
class Calls {
 public:
  explicit Calls(const std::string& name);
  /// Counts one more. True: it is to be forgotten.
  [[nodiscard]] bool forgets();
  [[nodiscard]] long count() const { return count_; }

 private:
  std::mutex mutex_;
  std::optional<long> chosen_;  ///< 0: all
  long count_ = 0;
};

struct Record {
  std::mutex mutex;
  std::map<std::string, long> operations;
  std::set<int> devices;
  long to_device = 0;
  Calls to_host{"copy"};
  Calls synchronizations{"synchronization"};

  /// Using a card takes hundreds of megabytes of its memory.
  void use(int device);
  void operation(const std::string& name);
  /// Adds a line to log_file(), unless nothing was done.
  void write();
};

/// The record of this process. It is never destroyed.
[[nodiscard]] Record& record();

}  // namespace fake_device
