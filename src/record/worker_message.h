// The messages between workers and the driver: one JSON object on one line (docs/campaign.md, "Worker
// protocol").
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "record/run.h"
#include "record/trial.h"

namespace bitrift::record {

/// First line of every rank on its own connection.
struct Hello {
  int rank = 0;
  int ranks = 1;
  int pid = 0;
};

/// From rank 0 when base checkpoint and data are loaded on all ranks.
struct Ready {
  std::string base_digest;  ///< From rank 0 when all ranks have loaded the base checkpoint and the data.
  Json environment;         ///< library versions, processor, device
};

/// From rank 0, the answer to a RunRequest.
struct Finished {
  RunResult result;
};

/// The last line of any rank: an exception escaped, or a signal arrived.
struct Broken {
  int rank = 0;
  Failure failure;
};

using WorkerMessage = std::variant<Hello, Ready, Finished, Broken>;

/// {"hello":{...}} | {"ready":{...}} | {"result":{...}} | {"failure":{...}}, without the line end.
[[nodiscard]] std::string to_line(const WorkerMessage& message);
/// Throws Error(bad_file) for anything else.
[[nodiscard]] WorkerMessage worker_message_from_line(const std::string& line);

/// The driver's side: a RunRequest ({"run":{...}}), or no request, which means finish ({"quit":true}).
[[nodiscard]] std::string to_line(const std::optional<RunRequest>& request);
[[nodiscard]] std::optional<RunRequest> run_request_from_line(const std::string& line);

}  // namespace bitrift::record
