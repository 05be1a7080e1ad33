#include "campaign/shard/lease.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "core/process/host.h"
#include "record/json/json.h"
#include "record/provenance.h"

namespace bitrift::campaign {
namespace {

using record::Json;

constexpr const char* lease_file = "driver.json";
// The size never changes, so that every heartbeat is one write in place.
constexpr std::size_t file_size = 4096;
constexpr std::size_t longest_end = 300;

// Distinguishes two otherwise equal tries; decides nothing about the campaign.
std::string random_token() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

// Process numbers mean the same to all processes that share boot and namespace.
std::string boot_id() {
  std::string text;
  try {
    text = read_text("/proc/sys/kernel/random/boot_id");
  } catch (const Error&) {
    return "";
  }
  text.erase(std::find(text.begin(), text.end(), '\n'), text.end());
  return text;
}

std::string process_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

struct ProcessState {
  bool known = false;
  bool ended = false;   // a zombie counts as ended
  std::string started;  // in ticks since boot: tells a later process with the same number apart
};

ProcessState look_at(int pid) {
  ProcessState state;
  std::string text;
  try {
    text = read_text("/proc/" + std::to_string(pid) + "/stat");
  } catch (const Error&) {
    state.ended = kill(pid, 0) != 0 && errno == ESRCH;
    return state;
  }
  // The second field is the program's name in brackets, which may hold anything.
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return state;
  std::istringstream fields(text.substr(bracket + 1));
  std::string field;
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3) state.ended = field == "Z" || field == "X";
    if (number == 22) state.started = field;
  }
  state.known = true;
  return state;
}

std::string lease_text(const std::string& since, const std::string& token, const std::string& of,
                       const std::string& end, std::uint64_t beats, bool over) {
  const Json value = {{"host", host_name()},
                      {"pid", getpid()},
                      {"started", look_at(getpid()).started},
                      {"boot", boot_id()},
                      {"namespace", process_namespace()},
                      {"since", since},
                      {"token", token},
                      {"of", of},
                      {"beats", beats},
                      {"over", over},
                      {"end", end}};
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize(file_size - 1, ' ');
  return text + "\n";
}

}  // namespace

std::string LeaseHolder::text() const {
  if (host.empty()) return "an unknown process";
  return fmt::format("host {}, process {}, since {}", host, pid, since);
}

LeaseHolder read_lease(const std::filesystem::path& numbered) {
  LeaseHolder holder;
  try {
    holder.raw = read_text(numbered / lease_file);
    const Json value = Json::parse(holder.raw);
    holder.host = value.at("host").get<std::string>();
    holder.pid = value.at("pid").get<int>();
    holder.since = value.at("since").get<std::string>();
    holder.end = value.at("end").get<std::string>();
    holder.of = value.value("of", "");  // missing in folders of earlier versions
    holder.over = value.at("over").get<bool>();
    const std::string boot = boot_id();
    holder.here = !boot.empty() && value.at("boot") == boot && value.at("namespace") == process_namespace();
    if (holder.here) {
      const ProcessState state = look_at(holder.pid);
      holder.lives = !state.ended && (!state.known || value.at("started") == state.started);
    }
  } catch (const Json::exception&) {
    // Read during a write, or damaged: missing heartbeats will show whether the holder is alive.
  } catch (const Error&) {
  }
  return holder;
}

std::filesystem::path numbered_folder(const std::filesystem::path& folder, int number) {
  return folder / fmt::format("{:04d}", number);
}

int last_lease(const std::filesystem::path& folder) {
  int last = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size()) last = std::max(last, number);
  }
  return last;
}

Lease::Lease(std::filesystem::path parent, int number, LeaseTimes times, std::string since, std::string token,
             std::string of)
    : parent_(std::move(parent)),
      folder_(numbered_folder(parent_, number)),
      number_(number),
      times_(times),
      since_(std::move(since)),
      token_(std::move(token)),
      of_(std::move(of)),
      fd_(open_file(folder_ / lease_file, O_WRONLY)) {
  thread_ = std::thread([this] { beat_until_over(); });
}

Lease::~Lease() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
  write(true);
}

void Lease::set_end(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  end_ = text.substr(0, text.find('\n')).substr(0, longest_end);
}

void Lease::beat_until_over() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, times_.beat, [this] { return over_; })) {
    ++beats_;
    write(false);
    std::error_code ignored;
    if (std::filesystem::exists(numbered_folder(parent_, number_ + 1), ignored)) lost_ = true;
  }
}

void Lease::write(bool over) {
  const std::string text = lease_text(since_, token_, of_, end_, beats_, over);
  // A heartbeat that cannot be written is skipped; another process may then take over, which loses no row.
  try {
    write_at(fd_, text.data(), text.size(), 0, folder_ / lease_file);
    sync_file(fd_, folder_ / lease_file);
  } catch (const Error& error) {
    spdlog::debug("{}", error.what());
  }
}

LeaseTaker::LeaseTaker(std::filesystem::path folder, LeaseTimes times, std::string of)
    : folder_(std::move(folder)), times_(times), of_(std::move(of)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) fail(ErrorCode::io, "{}: cannot create the folder: {}", folder_.string(), error.message());
}

bool LeaseTaker::is_free(int number) {
  if (number == 0) return true;
  const std::string before = std::exchange(holder_, read_lease(numbered_folder(folder_, number))).raw;
  const auto now = std::chrono::steady_clock::now();
  if (holder_.over) return true;
  if (holder_.here) {
    alive_ = holder_.lives;
    return !alive_;
  }
  const bool first_look = seen_number_ != number;
  if (first_look || holder_.raw != before) {
    alive_ = !first_look;
    seen_number_ = number;
    seen_ = now;
  }
  return now - seen_ >= times_.silence;
}

std::unique_ptr<Lease> LeaseTaker::try_take() {
  const int last = last_lease(folder_);
  if (!is_free(last)) return nullptr;
  const std::string since = record::utc_now();
  const std::string token = random_token();
  const std::string text = lease_text(since, token, of_, "", 0, false);
  std::string draft = (folder_ / ".start-XXXXXX").string();
  if (mkdtemp(draft.data()) == nullptr) {
    fail(ErrorCode::io, "{}: cannot make a folder in it: {}", folder_.string(), errno_text(errno));
  }
  const mode_t mask = umask(0);
  umask(mask);
  chmod(draft.c_str(), 0777 & ~mask);
  replace_text(std::filesystem::path(draft) / lease_file, text);
  const auto target = numbered_folder(folder_, last + 1);
  // A folder that is not empty is never replaced, so if several processes try, exactly one succeeds.
  const bool renamed = rename(draft.c_str(), target.c_str()) == 0;
  if (!renamed) {
    std::error_code ignored;
    std::filesystem::remove_all(draft, ignored);
    // Over a network, the answer to a successful rename can be lost.
    holder_ = read_lease(target);
    alive_ = holder_.here && holder_.lives;
    if (holder_.raw != text) return nullptr;
  }
  sync_folder_of(target);
  return std::unique_ptr<Lease>(new Lease(folder_, last + 1, times_, since, token, of_));
}

}  // namespace bitrift::campaign
