#include "train/run/trace.h"

#include <cerrno>

#include "core/error.h"

namespace bitrift::train {

Trace::Trace(const std::filesystem::path& path) : file_(path), out_(file_.path()) {
  if (!out_) fail(ErrorCode::io, "{}: cannot be written: {}", path.string(), errno_text(errno));
}

void Trace::begin(const record::TrainingSpec& spec, const record::Parallel& parallel, std::uint64_t seed,
                  std::int64_t samples, const std::string& digest) {
  line({{"schema", "bitrift/trace/1"},
        {"spec", record::Json::parse(record::to_text(spec))},
        {"parallel", record::to_json(parallel)},
        {"seed", seed},
        {"samples", samples},
        {"digest", digest}});
}

void Trace::step(const TraceStep& step) {
  line({{"epoch", step.epoch},
        {"step", step.step},
        {"indices", step.indices},
        {"lr", record::hex_float(step.learning_rate)},
        {"loss", record::hex_float(step.loss)},
        {"digest", step.digest},
        {"replicas_equal", step.replicas_equal}});
}

void Trace::evaluation(const record::Evaluation& evaluation) {
  line({{"evaluation", record::to_json(evaluation)}});
}

void Trace::finish() {
  out_.close();
  if (!out_)
    fail(ErrorCode::io, "{}: could not be written completely: {}", file_.target().string(),
         errno_text(errno));
  file_.commit();
}

void Trace::line(const record::Json& value) { out_ << value.dump() << '\n'; }

}  // namespace bitrift::train
