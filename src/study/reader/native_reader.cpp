#include "study/reader/native_reader.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include <poll.h>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "core/error.h"
#include "core/process/python_program.h"
#include "wire/listener.h"

namespace bitrift::study {
namespace {

using Clock = std::chrono::steady_clock;
using record::Json;

// PyTorch takes two seconds to import on a quiet machine.
constexpr double start_seconds = 300;
// A process whose channel has closed ends within milliseconds.
constexpr double end_seconds = 10;

double seconds_left(Clock::time_point deadline) {
  return std::chrono::duration<double>(deadline - Clock::now()).count();
}

Clock::time_point deadline_in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Waits for data, at most a tenth of a second so that interrupts are noticed.
void wait_for(std::vector<pollfd> waiting, Clock::time_point deadline) {
  const double seconds = std::clamp(seconds_left(deadline), 0.0, 0.1);
  ::poll(waiting.data(), waiting.size(), static_cast<int>(seconds * 1000) + 1);
  campaign::InterruptGuard::check();
}

// glibc's cache per thread would return blocks with old contents (see fill_memory() of the reader).
std::string without_block_cache() {
  const char* theirs = std::getenv("GLIBC_TUNABLES");
  const std::string before = theirs == nullptr || *theirs == '\0' ? "" : std::string(theirs) + ":";
  return before + "glibc.malloc.tcache_count=0";
}

Command reader_command(const NativeReaderOptions& options, const std::string& socket, ReaderDuty duty) {
  Command command = python_command({});
  if (!options.interpreter.empty()) command.arguments = {options.interpreter};
  command.arguments.insert(command.arguments.end(),
                           {"-m", "bitrift.study.reader", "--connect", socket, "--base",
                            options.base.string(), "--memory", std::to_string(options.memory)});
  if (options.misread) command.arguments.insert(command.arguments.end(), {"--drill", "misread"});
  command.arguments.emplace_back("--formats");
  for (const Format format : options.formats) command.arguments.emplace_back(name_of(format));
  if (duty == ReaderDuty::reads) command.environment["GLIBC_TUNABLES"] = without_block_cache();
  command.environment["PYTHONHASHSEED"] = "0";
  command.environment["PYTHONUNBUFFERED"] = "1";
  command.environment["OMP_NUM_THREADS"] = "1";
  command.output = options.log;
  return command;
}

ReaderFacts facts_from(const Json& hello) {
  ReaderFacts facts;
  facts.versions = hello.at("versions");
  facts.installed = hello.at("formats").get<std::map<std::string, bool>>();
  for (const auto& [name, tensor] : hello.at("tensors").items()) {
    facts.digests[name] = tensor.at("digest").get<std::string>();
    facts.tensor_bytes += tensor.at("bytes").get<std::uint64_t>();
  }
  return facts;
}

}  // namespace

struct NativeReader::Process {
  ReaderDuty duty;
  campaign::Listener listener;
  Subprocess child;
  std::optional<campaign::Connection> channel;

  Process(const NativeReaderOptions& options, ReaderDuty duty_)
      : duty(duty_), child(reader_command(options, listener.name(), duty_)) {}

  // The next line; nullopt when the process has ended or the time is over.
  std::optional<std::string> line_before(Clock::time_point deadline) {
    while (true) {
      if (auto line = channel->take_line()) return line;
      if (!channel->open() || seconds_left(deadline) <= 0) return std::nullopt;
      wait_for({{channel->descriptor(), POLLIN, 0}}, deadline);
      channel->receive();
    }
  }

  // False when the process ended first or did not connect in time.
  bool connect(Clock::time_point deadline) {
    while (!channel) {
      std::vector<pollfd> waiting;
      listener.add_to(waiting);
      wait_for(waiting, deadline);
      for (campaign::Connection& connection : listener.accept()) channel.emplace(std::move(connection));
      if (!channel && (child.poll() || seconds_left(deadline) <= 0)) return false;
    }
    return true;
  }
};

struct NativeReader::Reply {
  std::optional<Json> line = {};
  std::optional<ExitStatus> died = {};  // neither: the time was up
};

NativeReader::NativeReader(NativeReaderOptions options) : options_(std::move(options)) {}

NativeReader::~NativeReader() = default;

void NativeReader::stop() noexcept { process_.reset(); }

void NativeReader::start(ReaderDuty duty) {
  process_ = std::make_unique<Process>(options_, duty);
  const Clock::time_point deadline = deadline_in(start_seconds);
  std::optional<std::string> line;
  if (process_->connect(deadline)) line = process_->line_before(deadline);
  if (line) {
    facts_ = facts_from(Json::parse(*line).at("hello"));
    return;
  }
  const std::string python = reader_command(options_, "", duty).arguments.front();
  stop();
  const std::string said = campaign::log_tail(options_.log);
  fail(ErrorCode::not_found,
       "{} -m bitrift.study.reader does not start: {}; install the package bitrift, NumPy and h5py there, or "
       "name another Python in `interpreter` or BITRIFT_PYTHON",
       python, said.empty() ? "it ends without a message" : said);
}

const ReaderFacts& NativeReader::facts() {
  if (!facts_) start(ReaderDuty::reads);
  return *facts_;
}

NativeReader::Reply NativeReader::ask(const char* what, Format format, const std::filesystem::path& path,
                                      double timeout_seconds, const Json& more, ReaderDuty duty) {
  if (process_ && process_->duty != duty) stop();
  if (!process_) start(duty);
  Json request = {{"do", what}, {"format", format}, {"path", path.string()}};
  request.update(more);
  process_->channel->send(request.dump());
  if (const auto line = process_->line_before(deadline_in(timeout_seconds))) {
    Json reply = Json::parse(*line);
    if (reply.value("stale", false)) stop();
    return {std::move(reply)};
  }
  if (process_->channel->open()) {
    stop();
    return {};
  }
  // A process whose end is closed is about to end; killing it here would hide its own signal.
  const std::optional<ExitStatus> status = process_->child.wait(end_seconds);
  stop();
  return {{}, status.value_or(ExitStatus{})};
}

NativeReader::Reply NativeReader::must_write(const char* what, Format format,
                                             const std::filesystem::path& path, const Json& more,
                                             ReaderDuty duty, double timeout_seconds) {
  Reply reply = ask(what, format, path, timeout_seconds, more, duty);
  if (!reply.line || reply.line->contains("refused")) {
    fail(ErrorCode::io, "{}: {} cannot be written: {}", path.string(), name_of(format),
         reply.line   ? reply.line->at("refused").get<std::string>()
         : reply.died ? reply.died->text() + "; " + campaign::log_tail(options_.log)
                      : "no answer");
  }
  return reply;
}

SaveTimes NativeReader::time(Format format, const std::filesystem::path& path, const TimedSaves& what) {
  const Reply reply =
      must_write("time", format, path,
                 {{"behind", what.behind}, {"saves", what.count}, {"between", what.between_seconds}},
                 ReaderDuty::times, static_cast<double>(what.count) * (write_seconds + what.between_seconds));
  const Json& times = reply.line->at("times");
  return {times.at("block").get<double>(), times.at("persist").get<double>(),
          times.at("processor").get<double>()};
}

pid_t NativeReader::start_save(Format format, const std::filesystem::path& path,
                               const std::vector<std::string>& command) {
  return must_write("start", format, path, {{"command", command}}).line->at("pid").get<pid_t>();
}

std::vector<WrittenExtent> NativeReader::write(Format format, const std::filesystem::path& path,
                                               const std::filesystem::path& from) {
  const Reply reply =
      must_write("write", format, path, from.empty() ? Json::object() : Json{{"from", from.string()}});
  std::vector<WrittenExtent> extents;
  const Json& found = reply.line->at("extents");
  if (found.is_null()) return extents;
  for (const Json& extent : found) {
    extents.push_back({extent.at(0).get<std::string>(), extent.at(1).get<std::uint64_t>(),
                       extent.at(2).get<std::uint64_t>(), extent.at(3).get<std::string>()});
  }
  return extents;
}

ReaderAnswer NativeReader::read(Format format, const std::filesystem::path& path, double timeout_seconds,
                                bool change) {
  const Reply reply = ask("read", format, path, timeout_seconds, {{"change", change}});
  if (!reply.line) return reply.died ? ReaderAnswer(ReaderDied{*reply.died}) : ReaderAnswer(ReaderHung{});
  if (reply.line->contains("refused")) return ReaderRefused{reply.line->at("refused").get<std::string>()};
  ReaderContents contents{reply.line->at("tensors").get<std::map<std::string, std::string>>()};
  if (const auto found = reply.line->find("change"); found != reply.line->end())
    contents.change = change_from_json(*found);
  return contents;
}

}  // namespace bitrift::study
