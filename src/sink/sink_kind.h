// The sinks that one process can write a file through.
#pragma once

#include <filesystem>
#include <memory>

#include "sink/sink.h"

namespace bitrift::ckpt {

enum class SinkKind {
  plain,   ///< PlainSink: through the page cache
  direct,  ///< DirectSink: bypasses it
};

/// Throws what the constructor of the sink throws.
[[nodiscard]] std::unique_ptr<Sink> make_sink(SinkKind kind, std::filesystem::path target);

}  // namespace bitrift::ckpt
