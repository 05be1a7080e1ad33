#include "wire/line_channel.h"

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>

#include "unit/scratch.h"

namespace bitrift::line_channel_test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// A channel, and the other end of its socket.
class LineChannelTest : public ::testing::TestWithParam<int> {
 protected:
  LineChannelTest() : LineChannelTest(pair(GetParam())) {}
  void write(std::string_view text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = ::send(peer_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
  }
  std::optional<std::string> received() {
    channel_.receive();
    return channel_.take_line();
  }

  FileDescriptor peer_;
  LineChannel channel_;

 private:
  static std::array<int, 2> pair(int flags) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ::fcntl(ends[1], F_SETFL, flags);
    return ends;
  }
  explicit LineChannelTest(const std::array<int, 2>& ends)
      : peer_(ends[0]), channel_(FileDescriptor(ends[1]), "a worker") {}
};

/// Interrupts a thread's system calls until the end of its scope.
class Interruptions {
 public:
  explicit Interruptions(std::thread& thread) {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // without SA_RESTART
    ::sigaction(SIGUSR1, &action, &before_);
    for (int i = 0; i < 50; ++i) {
      ::pthread_kill(thread.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(2ms);
    }
  }
  ~Interruptions() { ::sigaction(SIGUSR1, &before_, nullptr); }
  Interruptions(Interruptions&&) = delete;
  Interruptions& operator=(Interruptions&&) = delete;

 private:
  struct sigaction before_ {};
};

TEST_P(LineChannelTest, LinesArriveWholeHoweverTheyAreCut) {
  EXPECT_EQ(received(), std::nullopt);
  write("ab");
  EXPECT_EQ(received(), std::nullopt);
  write("c\n\nde");
  EXPECT_EQ(received(), "abc");
  EXPECT_EQ(channel_.take_line(), "");
  EXPECT_EQ(channel_.take_line(), std::nullopt);
  write("f\n");
  EXPECT_EQ(channel_.wait_for_line(), "def");
  EXPECT_TRUE(channel_.open());
}

TEST_P(LineChannelTest, LinesBeforeTheEndAreTakenAndABrokenOneIsNot) {
  write("first\nsecond\nbro");
  peer_.close();
  channel_.receive();
  EXPECT_FALSE(channel_.open());
  EXPECT_EQ(channel_.wait_for_line(), "first");
  EXPECT_EQ(channel_.wait_for_line(), "second");
  EXPECT_EQ(channel_.wait_for_line(), std::nullopt);
  EXPECT_GE(::fcntl(channel_.descriptor(), F_GETFD), 0) << "others may still use it";
}

TEST_P(LineChannelTest, WaitingOutlastsInterruptions) {
  std::optional<std::string> line;
  std::thread waiting([&] { line = channel_.wait_for_line(); });
  {
    const Interruptions interruptions(waiting);
    write("late\n");
    waiting.join();
  }
  EXPECT_EQ(line, "late");
}

TEST_P(LineChannelTest, MoreThanTheSocketHoldsIsSentWholeInSpiteOfInterruptions) {
  LineChannel reader(std::move(peer_), "the driver");
  const std::string line(8 * mebibyte, 'x');
  std::thread sending([&] {
    channel_.send(line);
    ::shutdown(channel_.descriptor(), SHUT_WR);
  });
  std::optional<std::string> found;
  {
    const Interruptions interruptions(sending);
    found = reader.wait_for_line();
    sending.join();
  }
  EXPECT_TRUE(found == line);
}

TEST_P(LineChannelTest, APeerThatDoesNotReadIsGivenUpAfterAWhile) {
  const auto start = std::chrono::steady_clock::now();
  channel_.send(std::string(8 * mebibyte, 'x'), 50);
  const auto spent = std::chrono::steady_clock::now() - start;
  EXPECT_GE(spent, 50ms);
  EXPECT_LT(spent, 10s);
  EXPECT_TRUE(channel_.open());
}

TEST_P(LineChannelTest, SendingToAPeerThatIsGoneShowsOnReceiving) {
  peer_.close();
  channel_.send("hello");
  EXPECT_EQ(channel_.wait_for_line(), std::nullopt);
}

TEST_P(LineChannelTest, ALineWithoutEndIsRefusedAtItsBound) {
  std::thread writing([&] { write(std::string(70 * mebibyte, 'x')); });
  EXPECT_ERROR((void)channel_.wait_for_line(), bad_file, "a worker sent a line of more than 67108864 bytes");
  EXPECT_FALSE(channel_.open());
  EXPECT_EQ(channel_.wait_for_line(), std::nullopt);
  channel_ = LineChannel(FileDescriptor(), "nobody");
  writing.join();
}

INSTANTIATE_TEST_SUITE_P(Sockets, LineChannelTest, ::testing::Values(0, O_NONBLOCK),
                         [](const auto& flags) { return flags.param == 0 ? "Blocking" : "NonBlocking"; });

}  // namespace
}  // namespace bitrift::line_channel_test
