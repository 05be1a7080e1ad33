// Keeps a program ready in front of its main(), with all libraries loaded, and runs main() in a fork for each
// request: LibTorch takes 0.3 s of a core to load, more than most commands of a test take for the rest. Each
// run is a process of its own, as if it had been started. It is a library for LD_PRELOAD; the resident
// program listens at the abstract socket that BITRIFT_RESIDENT names, and ends when nobody holds the other
// end of its standard input.
#include "resident.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include <dlfcn.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Main = int (*)(int, char**, char**);
Main program = nullptr;

struct Request {
  std::vector<int> streams;
  std::vector<std::string> words;
};

bool read_all(int socket, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(socket, to, size);
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

/// False when the other end is gone.
bool read_request(int socket, Request& request) {
  std::uint32_t size = 0;
  iovec piece{&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(bitrift::tests::stream_count * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, 0) != sizeof size) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return false;
  request.streams.resize(bitrift::tests::stream_count);
  std::memcpy(request.streams.data(), CMSG_DATA(header), sizeof(int) * bitrift::tests::stream_count);
  std::string text(size, '\0');
  if (!read_all(socket, text.data(), size)) return false;
  for (std::size_t at = 0; at < text.size();) {
    request.words.emplace_back(text.c_str() + at);
    at += request.words.back().size() + 1;
  }
  return request.words.size() > 2;  // a folder, a number, a program
}

int run(const Request& request) {
  for (int stream = 0; stream < bitrift::tests::stream_count; ++stream) {
    const int given = request.streams[static_cast<std::size_t>(stream)];
    ::dup2(given, stream);
    ::close(given);
  }
  if (::chdir(request.words[0].c_str()) != 0) return 127;
  const auto first = request.words.begin() + 2;
  const auto last = first + std::strtol(request.words[1].c_str(), nullptr, 10);
  ::clearenv();
  for (auto word = last; word != request.words.end(); ++word) {
    const std::size_t sign = word->find('=');
    ::setenv(word->substr(0, sign).c_str(), word->c_str() + sign + 1, 1);
  }
  static std::vector<std::string> words;  // main() may keep pointers to them
  words.assign(first, last);
  static std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return program(static_cast<int>(words.size()), pointers.data(), environ);
}

struct Run {
  pid_t process;
  int ended;  // readable when it has
};

class Resident {
 public:
  explicit Resident(const char* name) : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto [address, size] = bitrift::tests::abstract_address(name);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 128) != 0) {
      std::perror("resident");
      std::exit(127);
    }
  }

  /// Returns, in a fork, what its main() returned.
  int serve() {
    for (;;) {
      std::vector<pollfd> waits{{0, 0, 0}, {listener_, POLLIN, 0}};
      for (const auto& [socket, one] : runs_) {
        waits.push_back({one.ended, POLLIN, 0});
        waits.push_back({socket, POLLIN | POLLRDHUP, 0});
      }
      if (::poll(waits.data(), waits.size(), -1) < 0) continue;
      if (waits[0].revents != 0) {
        for (const auto& [socket, one] : runs_) ::kill(one.process, SIGKILL);
        std::_Exit(0);
      }
      for (std::size_t i = 2; i < waits.size(); i += 2) {
        if (waits[i].revents != 0) {
          tell_end(waits[i + 1].fd);
        } else if (waits[i + 1].revents != 0) {
          ::kill(runs_.at(waits[i + 1].fd).process, SIGKILL);  // nobody waits for it any more
        }
      }
      if (waits[1].revents != 0 && start()) return run(request_);
    }
  }

 private:
  /// True in the fork.
  bool start() {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    request_ = {};
    if (!read_request(socket, request_)) {
      ::close(socket);
      return false;
    }
    const pid_t process = ::fork();
    if (process == 0) {
      ::close(listener_);
      ::close(socket);
      for (const auto& [other, one] : runs_) {
        ::close(other);
        ::close(one.ended);
      }
      return true;
    }
    for (const int stream : request_.streams) ::close(stream);
    const int ended = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    const std::int32_t number = process;
    (void)::send(socket, &number, sizeof number, MSG_NOSIGNAL);
    runs_[socket] = {process, ended};
    return false;
  }

  void tell_end(int socket) {
    const Run one = runs_.at(socket);
    int status = 0;
    ::waitpid(one.process, &status, 0);
    (void)::send(socket, &status, sizeof status, MSG_NOSIGNAL);
    ::close(socket);
    ::close(one.ended);
    runs_.erase(socket);
  }

  int listener_;
  Request request_;
  std::map<int, Run> runs_;  // by the socket that asked for it
};

int wait_for_requests(int count, char** words, char** environment) {
  const char* const name = std::getenv("BITRIFT_RESIDENT");
  if (name == nullptr) return program(count, words, environment);
  return Resident(name).serve();
}

}  // namespace

// Called by the program's entry point, when the libraries are loaded.
extern "C" int __libc_start_main(Main main, int count, char** words, void (*begin)(), void (*end)(),
                                 void (*linker_end)(), void* stack_end) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  program = main;
  const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(wait_for_requests, count, words, begin, end, linker_end, stack_end);
}
