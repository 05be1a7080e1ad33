#include "sink/sink_kind.h"

#include <utility>

#include "sink/direct_sink.h"
#include "sink/plain_sink.h"

namespace bitrift::ckpt {

std::unique_ptr<Sink> make_sink(SinkKind kind, std::filesystem::path target) {
  if (kind == SinkKind::direct) return std::make_unique<DirectSink>(std::move(target));
  return std::make_unique<PlainSink>(std::move(target));
}

}  // namespace bitrift::ckpt
