#include "record/worker_message.h"

#include "core/error.h"

namespace bitrift::record {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 does not deduce aggregates

Json to_json(const WorkerMessage& message) {
  return std::visit(
      Overloaded{
          [](const Hello& hello) -> Json {
            return {{"hello", {{"rank", hello.rank}, {"ranks", hello.ranks}, {"pid", hello.pid}}}};
          },
          [](const Ready& ready) -> Json {
            return {{"ready", {{"base_digest", ready.base_digest}, {"environment", ready.environment}}}};
          },
          [](const Finished& finished) -> Json {
            return {{"result", to_json(finished.result)}};
          },
          [](const Broken& broken) -> Json {
            Json failure = to_json(broken.failure);
            failure["rank"] = broken.rank;
            return {{"failure", failure}};
          },
      },
      message);
}

WorkerMessage from_json(const Json& value) {
  if (value.contains("hello")) {
    const Json& hello = value["hello"];
    return Hello{hello.at("rank").get<int>(), hello.at("ranks").get<int>(), hello.at("pid").get<int>()};
  }
  if (value.contains("ready")) {
    return Ready{value["ready"].at("base_digest").get<std::string>(), value["ready"].at("environment")};
  }
  if (value.contains("result")) return Finished{run_result_from_json(value["result"])};
  const Json& failure = value.at("failure");
  return Broken{failure.at("rank").get<int>(), failure.get<Failure>()};
}

// Makes one line whatever the texts contain; bytes that are not UTF-8 (in an exception's text, say) are
// replaced.
std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string to_line(const WorkerMessage& message) { return dump(to_json(message)); }

WorkerMessage worker_message_from_line(const std::string& line) {
  try {
    return from_json(Json::parse(line));
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "a worker said something that is not a message ({}): {}", error.what(),
         line.substr(0, 200));
  }
}

std::string to_line(const std::optional<RunRequest>& request) {
  return dump(request ? Json{{"run", to_json(*request)}} : Json{{"quit", true}});
}

std::optional<RunRequest> run_request_from_line(const std::string& line) {
  try {
    const Json value = Json::parse(line);
    if (value.contains("quit")) return std::nullopt;
    return value.at("run").get<RunRequest>();
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "the driver said something that is not a request ({}): {}", error.what(),
         line.substr(0, 200));
  }
}

}  // namespace bitrift::record
