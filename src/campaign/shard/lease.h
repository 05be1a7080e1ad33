// The right to do something that only one process at a time may do, where several machines share a folder.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/file.h"

namespace bitrift::campaign {

struct LeaseTimes {
  std::chrono::milliseconds beat{5000};      ///< between two heartbeats
  std::chrono::milliseconds silence{60000};  ///< without a heartbeat for this long, a holder on another
                                             ///< machine counts as dead
};

/// The holder of a lease, according to its file.
struct LeaseHolder {
  std::string host;
  int pid = 0;
  std::string since;  ///< UTC
  std::string end;    ///< how it ended, in its own words; "" while it is running
  std::string of;     ///< whose driver it is, if it stands in: "1/3"; "" if the lease is its own
  bool over = false;
  bool here = false;   ///< whether it is on this machine, so that its process can be checked
  bool lives = false;  ///< only where `here`
  std::string raw;     ///< the file's bytes: two reads that differ show a heartbeat
  /// "host a, process 123, since 2026-01-31T12:00:00.123Z"
  [[nodiscard]] std::string text() const;
};

/// Reads the lease in a numbered folder; one that cannot be read has an empty host.
[[nodiscard]] LeaseHolder read_lease(const std::filesystem::path& numbered);
/// The highest number in a folder of leases; 0 when there is none.
[[nodiscard]] int last_lease(const std::filesystem::path& folder);
/// FOLDER/0007.
[[nodiscard]] std::filesystem::path numbered_folder(const std::filesystem::path& folder, int number);

/// A numbered folder FOLDER/NNNN that belongs to this process. It is created by one rename(2), together with
/// a file that says who holds it and is written to every few seconds, so it needs no lock. A process that
/// takes the next number takes over. A holder that was silent for too long but is alive learns this from
/// lost(). Until then both may work, so each must write to its own numbered folder.
class Lease {
 public:
  ~Lease();  ///< the file then says that the holder has ended
  Lease(Lease&&) = delete;
  Lease& operator=(Lease&&) = delete;
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] int number() const noexcept { return number_; }
  /// What others will read about its end; one line, cut at 300 characters.
  void set_end(const std::string& text);
  /// Whether a later number exists: another process has taken this holder for dead.
  [[nodiscard]] bool lost() const noexcept { return lost_; }

 private:
  friend class LeaseTaker;
  Lease(std::filesystem::path parent, int number, LeaseTimes times, std::string since, std::string token,
        std::string of);
  void beat_until_over();
  void write(bool over);

  std::filesystem::path parent_, folder_;
  int number_;
  LeaseTimes times_;
  std::string since_, token_, of_, end_;
  FileDescriptor fd_;
  std::uint64_t beats_ = 0;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

/// Tries to take the next lease of a folder, again and again.
class LeaseTaker {
 public:
  /// of: what LeaseHolder::of will say.
  explicit LeaseTaker(std::filesystem::path folder, LeaseTimes times = {}, std::string of = "");
  /// The next lease, or nullptr while the last one is or may be held: its process runs on this machine, or it
  /// is on another machine and has not been silent for long enough. Throws Error(io).
  [[nodiscard]] std::unique_ptr<Lease> try_take();
  /// The holder that stopped the last try.
  [[nodiscard]] const LeaseHolder& holder() const noexcept { return holder_; }
  /// Whether that holder is known to be alive.
  [[nodiscard]] bool alive() const noexcept { return alive_; }

 private:
  [[nodiscard]] bool is_free(int number);

  std::filesystem::path folder_;
  LeaseTimes times_;
  std::string of_;
  LeaseHolder holder_;
  bool alive_ = false;
  int seen_number_ = 0;
  std::chrono::steady_clock::time_point seen_;
};

}  // namespace bitrift::campaign
