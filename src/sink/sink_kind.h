// The sinks through which one process can write a file.
#pragma once

#include <filesystem>
#include <memory>

#include "sink/sink.h"

namespace bitrift::ckpt {

enum class SinkKind {
  plain,   ///< PlainSink: through the page cache
  direct,  ///< DirectSink: bypasses it
};

/// Throws as the constructor of the sink does.
[[nodiscard]] std::unique_ptr<Sink> make_sink(SinkKind kind, std::filesystem::path target);

}  // namespace bitrift::ckpt
