// Logging: one spdlog logger on stderr, so that stdout carries results only.
#pragma once

#include <spdlog/spdlog.h>

namespace bitrift {

/// Makes the default logger write to stderr as "name: level: text"; level from BITRIFT_LOG
/// (trace|debug|info|warn|error), by default info. Call once in main.
void start_logging(const char* program);

}  // namespace bitrift
