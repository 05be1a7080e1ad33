#include "core/log.h"

#include <cstdlib>
#include <string>

#include <spdlog/sinks/stdout_sinks.h>

namespace bitrift {

void start_logging(const char* program) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%n: %l: %v");
  const char* level = std::getenv("BITRIFT_LOG");
  logger->set_level(level == nullptr ? spdlog::level::info : spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace bitrift
