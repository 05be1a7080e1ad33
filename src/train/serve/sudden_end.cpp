#include "train/serve/sudden_end.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/error.h"
#include "record/worker_message.h"

namespace bitrift::train {
namespace {

constexpr int goodbye_ms = 200;

}  // namespace

HangUpWatch::HangUpWatch(int descriptor) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(ErrorCode::io, "cannot make a pipe: {}", errno_text(errno));
  stop_in_ = FileDescriptor(ends[0]);
  stop_out_ = FileDescriptor(ends[1]);
  thread_ = std::thread([driver = descriptor, stop = ends[0]] {
    std::array<pollfd, 2> watched{{{driver, POLLRDHUP, 0}, {stop, POLLIN, 0}}};
    while (true) {
      if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) ::_exit(3);
      if (watched[1].revents != 0) return;
      if (watched[0].revents == 0) continue;
      // A driver may hang up right after its goodbye: give the main thread a moment to report it.
      if (::poll(&watched[1], 1, goodbye_ms) > 0) return;
      ::_exit(3);
    }
  });
}

HangUpWatch::~HangUpWatch() {
  stop_out_.close();
  thread_.join();
}

namespace {

constexpr std::array<int, 5> deadly_signals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Written before the handlers are installed; they only read it.
int words_descriptor = -1;
std::array<std::string, NSIG> words;

void say_last_words(int signal) {
  const std::string& text = words[static_cast<std::size_t>(signal)];
  [[maybe_unused]] const ssize_t written = ::write(words_descriptor, text.data(), text.size());
  // SA_RESETHAND restored the default action; the signal is blocked until this handler returns.
  ::raise(signal);
}

}  // namespace

void install_last_words(int descriptor, int rank) {
  words_descriptor = descriptor;
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // A separate stack, so that an overflow of the usual one is reported too.
  static std::array<char, std::size_t{64} * 1024> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  ::sigaltstack(&alternative, nullptr);
  for (const int signal : deadly_signals) {
    record::Broken broken{rank, {record::FailureReason::signal, ::strsignal(signal), signal}};
    words[static_cast<std::size_t>(signal)] = record::to_line(broken) + "\n";
    struct sigaction action {};
    action.sa_handler = say_last_words;
    action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace bitrift::train
