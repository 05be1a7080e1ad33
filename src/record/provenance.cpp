#include "record/provenance.h"

#include <chrono>
#include <ctime>
#include <fstream>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/build_info.h"
#include "core/error.h"

namespace bitrift::record {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) {
      const auto colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

const char* bitrift_version() noexcept { return build_version; }

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, since % 1000);
}

void check_schema(const Json& document) {
  const auto found = document.find("schema");
  if (found == document.end()) fail(ErrorCode::bad_file, "it has no schema, expected {}", schema_version);
  if (*found == schema_version) return;
  fail(ErrorCode::bad_file, "its schema is {}, expected {}: another version of bitrift wrote it",
       found->dump(-1, ' ', false, Json::error_handler_t::replace), schema_version);
}

Json provenance(const std::vector<std::string>& command) {
  utsname system{};
  ::uname(&system);
  return {{"schema_version", schema_version},
          {"bitrift", bitrift_version()},
          {"commit", build_commit},
          {"build_type", build_type},
          {"compiler", fmt::format("g++ {}", __VERSION__)},
          {"host", system.nodename},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"processor", processor_name()},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"command", command},
          {"time", utc_now()}};
}

}  // namespace bitrift::record
