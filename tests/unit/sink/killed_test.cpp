// Saves that are killed, or fail, at every call that alters a file.
#include <cerrno>
#include <csignal>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/inject/kill_at_call.h"
#include "sink/direct_sink.h"
#include "sink/format/image_of.h"
#include "sink/plain_sink.h"
#include "sink/shared_sink.h"
#include "support.h"
#include "unit/scratch.h"

namespace bitrift::ckpt::sink_test {
namespace {

using testing::bytes_of;
using testing::Scratch;
using testing::write_bytes;
using tests::interruption;
using Save = std::function<void(const std::filesystem::path&)>;

constexpr const char* kOld = "the previous file";

/// A checkpoint of several pieces, its image and its bytes; made once, before any child.
struct Example {
  explicit Example(WriteFormat of) : format(of) {
    if (!is_compressed(format)) image = image_of(format, made.metas, made.attributes);
    const Scratch scratch;
    save_by_writer(made, format, scratch / "c");
    bytes = format == WriteFormat::hdf5 ? expected_bytes(made) : bytes_of(scratch / "c");
  }

  WriteFormat format;
  Checkpoint made = {{{"a", number_format("float32").value(), {1000}},
                      {"model/big", number_format("float64").value(), {3, 40'000}},
                      {"z/odd", number_format("uint8").value(), {7001}},
                      {"model/empty", number_format("int8").value(), {0}}},
                     {{"spec", "{}"}}};
  Image image;
  std::string bytes;
};

/// The one that is saved, by the format that was chosen last.
const Example& example(std::optional<WriteFormat> chosen = {}) {
  static std::map<WriteFormat, Example> all;
  static WriteFormat format = WriteFormat::hdf5;
  format = chosen.value_or(format);
  return all.try_emplace(format, format).first->second;
}

/// What processes that were interrupted at each of their calls left behind.
struct Found {
  std::size_t previous = 0, whole = 0, leftovers = 0;
  std::set<std::string> calls;
};

/// The file after an interruption: previous or whole. At most one temporary file is left, and the next save
/// removes it.
void look(const Scratch& scratch, Found& found) {
  const std::string bytes = bytes_of(scratch / "c.h5");
  found.previous += bytes == kOld ? 1 : 0;
  found.whole += bytes == example().bytes ? 1 : 0;
  ASSERT_TRUE(bytes == kOld || bytes == example().bytes) << bytes.size() << " bytes";
  ASSERT_LE(scratch.entries(), 2U);
  found.leftovers += scratch.entries() - 1;
  save_by_writer(example().made, example().format, scratch / "c.h5");
  ASSERT_EQ(bytes_of(scratch / "c.h5"), example().bytes);
  ASSERT_EQ(scratch.entries(), 1U);
}

/// A child whose standard error is a pipe: what it wrote there goes to `said`. Its status as of waitpid(2).
int run_child(const std::function<void()>& work, std::string& said) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 2);
    work();
    ::_exit(0);
  }
  ::close(ends[1]);
  char text[64];
  for (ssize_t got = 0; (got = ::read(ends[0], text, sizeof text)) > 0;)
    said.append(text, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Whether calls that write do so half. Under a sanitizer, these tests take a minute; our code runs alike
/// either way.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::initializer_list<bool> kHalves = {false};
#else
constexpr std::initializer_list<bool> kHalves = {false, true};
#endif

/// `run(at)` interrupts at the at-th call and returns false when there is no such call any more.
Found at_every_call(const std::function<bool(const Scratch&, long at, bool half, std::string& said)>& run) {
  Found found;
  for (const bool half : kHalves) {
    for (long at = 1;; ++at) {
      const Scratch scratch;
      write_bytes(scratch / "c.h5", kOld);
      std::string said;
      if (!run(scratch, at, half, said)) break;
      found.calls.insert(said);
      look(scratch, found);
      if (::testing::Test::HasFatalFailure()) return found;
    }
  }
  return found;
}

void expect_both(const Found& found, const char* what) {
  EXPECT_THAT(found.calls, ::testing::ElementsAre("fchmod", "fsync", "ftruncate", "pwrite", "rename"))
      << what;
  EXPECT_GT(found.previous, 4 * kHalves.size()) << what;
  EXPECT_GE(found.whole, kHalves.size()) << what;
  EXPECT_GT(found.leftovers, 4 * kHalves.size()) << what;
}

template <typename Kind>
void save_by(const std::filesystem::path& path) {
  Kind sink(path);
  save(example().made, example().image, sink);
}

TEST(KilledSave, LeavesThePreviousFileOrTheNewOneWhole) {
  static_cast<void>(example(WriteFormat::hdf5));
  const std::map<std::string, Save> saves = {{"plain", save_by<PlainSink>}, {"direct", save_by<DirectSink>}};
  for (const auto& named : saves) {
    const Found found = at_every_call([&](const Scratch& scratch, long at, bool half, std::string& said) {
      const int status = run_child(
          [&] {
            interruption() = {.at = at, .half = half};
            named.second(scratch / "c.h5");
          },
          said);
      return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    });
    expect_both(found, named.first.c_str());
  }
}

TEST(KilledSave, OfEveryFormatLeavesThePreviousFileOrTheNewOneWhole) {
  for (const WriteFormat format : all_formats()) {
    static_cast<void>(example(format));
    const Found found = at_every_call([&](const Scratch& scratch, long at, bool half, std::string& said) {
      const int status = run_child(
          [&] {
            interruption() = {.at = at, .half = half};
            save_by_writer(example().made, format, scratch / "c.h5");
          },
          said);
      return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    });
    expect_both(found, name_of(format));
    if (HasFailure()) return;
  }
}

TEST(FailedSave, NamesTheFileAndLeavesThePreviousOne) {
  static_cast<void>(example(WriteFormat::hdf5));
  for (const bool direct : {false, true}) {
    for (const int error : {ENOSPC, EDQUOT, EIO}) {
      std::size_t whole = 0;
      for (long at = 1;; ++at) {
        const Scratch scratch;
        write_bytes(scratch / "c.h5", kOld);
        std::string text;
        try {
          std::unique_ptr<Sink> sink;
          if (direct) sink = std::make_unique<DirectSink>(scratch / "c.h5");
          if (!direct) sink = std::make_unique<PlainSink>(scratch / "c.h5");
          interruption() = {.at = at, .error = error};
          save(example().made, example().image, *sink);
        } catch (const Error& caught) {
          EXPECT_EQ(caught.code(), ErrorCode::io);
          text = caught.what();
        }
        const bool failed = interruption().at == 0;
        interruption() = {};
        ASSERT_EQ(failed, !text.empty()) << at;
        if (!failed) break;
        EXPECT_NE(text.find(scratch.path().string()), std::string::npos) << text;
        EXPECT_NE(text.find(errno_text(error)), std::string::npos) << text;
        EXPECT_EQ(scratch.entries(), 1U) << text;
        // The last call waits for the folder, when the new file has its name.
        whole += bytes_of(scratch / "c.h5") == example().bytes ? 1 : 0;
        ASSERT_TRUE(whole == 1 || bytes_of(scratch / "c.h5") == kOld) << text;
      }
      EXPECT_EQ(whole, 1U);
    }
  }
}

/// How many single refusals of O_DIRECT the save survived; -1 if a file was wrong.
int survived_refusals() {
  int count = 0;
  for (long at = 1;; ++at) {
    const Scratch scratch;
    DirectSink sink(scratch / "c.h5");
    interruption() = {.at = at, .error = EINVAL};
    bool saved = true;
    try {
      save(example().made, example().image, sink);
    } catch (const Error&) {
      saved = false;
    }
    const bool met = interruption().at == 0;
    interruption() = {};
    if (saved && bytes_of(scratch / "c.h5") != example().bytes) return -1;
    if (!met) return count;
    count += saved ? 1 : 0;
  }
}

TEST(DirectSink, ARefusalInTheMiddleChangesNothing) {
  static_cast<void>(example(WriteFormat::hdf5));
  std::string said;
  const int status = run_child([] { ::_exit(survived_refusals()); }, said);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_THAT(WEXITSTATUS(status), ::testing::AllOf(::testing::Ge(1), ::testing::Le(9)));
}

/// A connection between the first process and another one.
struct Line {
  int first = -1, other = -1;  // their ends
  Line() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("no sockets");
    first = ends[0];
    other = ends[1];
  }
  void close_except(int kept) const {
    if (first != kept) ::close(first);
    if (other != kept) ::close(other);
  }
};

constexpr std::size_t kProcesses = 3;

/// The protocol of shared_sink.h over sockets. A process that dies closes its ends.
void save_as_first(const std::filesystem::path& target, const std::vector<Line>& lines) {
  for (const Line& line : lines) line.close_except(line.first);
  SharedSink sink(target);
  ImageWriter writer(example().image, sink);
  const std::string name = sink.temporary();
  for (const Line& line : lines) (void)::send(line.first, name.data(), name.size(), MSG_NOSIGNAL);
  writer.fixed();
  give(writer, example().made, 0, kProcesses);
  writer.checksums();
  sink.sync();
  for (const Line& line : lines) {
    char done = 0;
    if (::recv(line.first, &done, 1, 0) != 1) return;
  }
  sink.commit();
}

void save_as_other(const std::filesystem::path& target, const std::vector<Line>& lines, std::size_t part) {
  const int first = lines[part - 1].other;
  for (const Line& line : lines) line.close_except(first);
  char name[100];
  const ssize_t length = ::recv(first, name, sizeof name, 0);
  if (length <= 0) return;
  SharedSink sink(target, std::string(name, static_cast<std::size_t>(length)));
  ImageWriter writer(example().image, sink);
  give(writer, example().made, part, kProcesses);
  writer.checksums();
  sink.commit();
  (void)::send(first, "d", 1, MSG_NOSIGNAL);
}

/// All processes of one save; `victim` is interrupted. True if it was.
bool save_shared(const std::filesystem::path& target, std::size_t victim, tests::Interruption how) {
  const std::vector<Line> lines(kProcesses - 1);
  std::vector<pid_t> children;
  for (std::size_t part = 0; part < kProcesses; ++part) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    if (part == victim) interruption() = how;
    try {
      if (part == 0) save_as_first(target, lines);
      if (part != 0) save_as_other(target, lines, part);
    } catch (const Error&) {
    }
    ::_exit(part == victim && how.error != 0 && interruption().at == 0 ? 1 : 0);
  }
  for (const Line& line : lines) line.close_except(-1);
  bool hit = false;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    hit = hit || status != 0;
  }
  return hit;
}

TEST(KilledSave, OfSeveralProcessesLeavesThePreviousFileOrTheNewOneWholeWhoeverDies) {
  for (const WriteFormat format : {WriteFormat::hdf5, WriteFormat::safetensors, WriteFormat::npz}) {
    static_cast<void>(example(format));
    for (std::size_t victim = 0; victim < kProcesses; ++victim) {
      const Found found = at_every_call([&](const Scratch& scratch, long at, bool half, std::string& said) {
        bool hit = false;
        run_child([&] { ::_exit(save_shared(scratch / "c.h5", victim, {.at = at, .half = half}) ? 1 : 0); },
                  said);
        hit = !said.empty();
        EXPECT_TRUE(hit || bytes_of(scratch / "c.h5") == example().bytes);
        return hit;
      });
      if (victim == 0) expect_both(found, "first");
      if (victim != 0) {
        EXPECT_THAT(found.calls, ::testing::ElementsAre("fsync", "pwrite"));
        EXPECT_GE(found.previous, 2 * kHalves.size());
        EXPECT_EQ(found.whole, 0U);
      }
    }
  }
}

TEST(FailedSave, OfOneProcessAmongSeveralLeavesThePreviousFile) {
  static_cast<void>(example(WriteFormat::hdf5));
  for (std::size_t victim = 0; victim < kProcesses; ++victim) {
    std::size_t met = 0;
    for (long at = 1;; ++at, ++met) {
      const Scratch scratch;
      write_bytes(scratch / "c.h5", kOld);
      if (!save_shared(scratch / "c.h5", victim, {.at = at, .error = ENOSPC})) break;
      const std::string bytes = bytes_of(scratch / "c.h5");
      ASSERT_TRUE(bytes == kOld || bytes == example().bytes) << victim << " " << at;
      EXPECT_EQ(scratch.entries(), 1U) << victim << " " << at;
    }
    EXPECT_GT(met, 1U);
  }
}

}  // namespace
}  // namespace bitrift::ckpt::sink_test
