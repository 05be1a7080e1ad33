// ask PROGRAM ARGUMENT...: runs a program in the fork of a resident one (resident.cpp), which the variable
// BITRIFT_RESIDENT names, with the streams, the folder and the environment of this process, and ends as it
// does.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resident.h"

namespace {

volatile std::sig_atomic_t process = 0;

void pass_on(int signal) {
  if (process > 0) ::kill(static_cast<pid_t>(process), signal);
}

bool send_request(int socket, const std::string& words) {
  std::uint32_t size = static_cast<std::uint32_t>(words.size());
  iovec piece{&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(bitrift::tests::stream_count * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bitrift::tests::stream_count * sizeof(int));
  const int streams[bitrift::tests::stream_count] = {0, 1, 2};
  std::memcpy(CMSG_DATA(header), streams, sizeof streams);
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) return false;
  for (std::size_t at = 0; at < words.size();) {
    const ssize_t sent = ::send(socket, words.data() + at, words.size() - at, MSG_NOSIGNAL);
    if (sent < 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

bool read_number(int socket, std::int32_t& number) {
  for (;;) {
    const ssize_t got = ::recv(socket, &number, sizeof number, MSG_WAITALL);
    if (got >= 0 || errno != EINTR) return got == sizeof number;
  }
}

[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(status), SIG_DFL);
    ::raise(WTERMSIG(status));
  }
  std::_Exit(WEXITSTATUS(status));
}

}  // namespace

int main(int count, char** arguments) {
  const char* const name = std::getenv("BITRIFT_RESIDENT");
  if (name == nullptr || count < 2) return 127;
  const auto [address, size] = bitrift::tests::abstract_address(name);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    std::perror("ask");
    return 127;
  }
  std::string words;
  const auto add = [&words](const std::string& word) { words.append(word).push_back('\0'); };
  add(std::filesystem::current_path().string());
  add(std::to_string(count - 1));
  for (int i = 1; i < count; ++i) add(arguments[i]);
  for (char** word = environ; *word != nullptr; ++word) add(*word);
  for (const int signal : {SIGTERM, SIGINT, SIGCONT}) std::signal(signal, pass_on);
  std::int32_t number = 0;
  std::int32_t status = 0;
  if (!send_request(socket, words) || !read_number(socket, number)) return 127;
  process = number;
  if (!read_number(socket, status)) return 127;
  end_as(status);
}
