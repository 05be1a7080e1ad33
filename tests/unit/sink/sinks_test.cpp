#include <cerrno>
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sink/direct_sink.h"
#include "sink/hdf5_image.h"
#include "sink/plain_sink.h"
#include "sink/shared_sink.h"
#include "support.h"
#include "unit/scratch.h"

namespace {

std::uint32_t file_system = 0;  // that statfs() names instead of the real one; 0: none

}  // namespace

extern "C" int statfs(const char* path, struct statfs* info) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_statfs, path, info));
  if (result == 0 && file_system != 0) info->f_type = file_system;
  return result;
}

namespace bitrift::ckpt::sink_test {
namespace {

using testing::bytes_of;
using testing::Scratch;
using testing::write_bytes;

using Make = std::function<std::unique_ptr<Sink>(const std::filesystem::path&)>;

struct Kind {
  const char* name;
  Make make;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"plain", [](const auto& path) { return std::make_unique<PlainSink>(path); }},
      {"direct", [](const auto& path) { return std::make_unique<DirectSink>(path); }},
      {"shared", [](const auto& path) { return std::make_unique<SharedSink>(path); }}};
  return all;
}

/// Runs `work` in a child that sees a file system of this kind at `place`; 77 where mounting is not allowed.
int exit_code_within(const char* kind, const char* options, unsigned long flags,
                     const std::filesystem::path& place, const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool own = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!own || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(kind, place.c_str(), kind, flags, options) != 0) {
      ::_exit(77);
    }
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(Sinks, EverySinkMakesTheSameFileOfARandomCheckpoint) {
  const Scratch scratch;
  for (std::uint64_t seed = 400; seed < 420; ++seed) {
    const Checkpoint made = random_checkpoint(seed, 300);
    const Image image = hdf5_image(made.metas, made.attributes);
    const std::string expected = expected_bytes(made);
    for (const Kind& kind : kinds()) {
      save(made, image, *kind.make(scratch / "c.h5"));
      ASSERT_EQ(bytes_of(scratch / "c.h5"), expected) << kind.name << " " << seed;
    }
  }
  EXPECT_EQ(scratch.entries(), 1U);
}

TEST(Sinks, BytesArriveWhateverTheirOrderAndLengthAndTheRestIsZero) {
  const Scratch scratch;
  for (const Kind& kind : kinds()) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      Random random(seed);
      const std::size_t size = 1 + random.below(6'000'000);
      std::vector<std::uint8_t> wanted(size);
      std::vector<std::pair<std::size_t, std::size_t>> parts;
      for (std::size_t at = 0; at < size;) {
        const std::size_t length = std::min(size - at, 1 + random.below(seed % 2 == 0 ? 20'000 : 6'000'000));
        parts.emplace_back(at, length);
        at += length;
      }
      for (std::size_t i = parts.size() - 1; seed % 3 != 0 && i > 0; --i)
        std::swap(parts[i], parts[random.below(i + 1)]);
      const auto sink = kind.make(scratch / "c");
      sink->begin(size);
      for (const auto& [at, length] : parts) {
        if (random.below(10) == 0) continue;
        for (std::size_t i = at; i < at + length; ++i)
          wanted[i] = static_cast<std::uint8_t>(i * 31 + i / 4096);
        sink->write(at, {wanted.data() + at, length});
      }
      sink->commit();
      const std::string found = bytes_of(scratch / "c");
      ASSERT_EQ(found.size(), size);
      ASSERT_EQ(std::memcmp(found.data(), wanted.data(), size), 0) << kind.name << " " << seed;
    }
  }
}

TEST(Sinks, WithoutCommitNothingIsLeftAndThePreviousFileStands) {
  const Scratch scratch;
  write_bytes(scratch / "c", "old");
  const std::vector<std::uint8_t> bytes(10'000'000, 1);
  for (const Kind& kind : kinds()) {
    {
      const auto sink = kind.make(scratch / "c");
      sink->begin(bytes.size());
      sink->write(0, bytes);
      EXPECT_EQ(scratch.entries(), 2U) << kind.name;
    }
    EXPECT_EQ(scratch.entries(), 1U) << kind.name;
    EXPECT_EQ(bytes_of(scratch / "c"), "old") << kind.name;
  }
}

TEST(Sinks, AFileSystemThatRefusesDirectWritesGetsPlainOnes) {
  const Scratch scratch;
  const Checkpoint made = random_checkpoint(1, 300);
  const Image image = hdf5_image(made.metas, made.attributes);
  const std::string expected = expected_bytes(made);
  const int code = exit_code_within("ramfs", nullptr, 0, scratch.path(), [&] {
    ::testing::internal::CaptureStdout();
    for (int i = 0; i < 3; ++i) {
      DirectSink sink(scratch / "c.h5");
      save(made, image, sink);
      if (bytes_of(scratch / "c.h5") != expected) return 1;
    }
    const std::string said = ::testing::internal::GetCapturedStdout();
    const std::size_t first = said.find("refuses O_DIRECT");
    return first != std::string::npos && said.find("refuses O_DIRECT", first + 1) == std::string::npos ? 0
                                                                                                       : 2;
  });
  EXPECT_THAT(code, ::testing::AnyOf(0, 77));
}

TEST(Sinks, AFullDiskIsAnErrorThatNamesTheFileAndLeavesNothing) {
  const Scratch scratch;
  const std::vector<std::uint8_t> bytes(6'000'000, 1);
  for (const Kind& kind : kinds()) {
    const int code = exit_code_within("tmpfs", "size=2m", 0, scratch.path(), [&] {
      write_bytes(scratch / "c", "old");
      for (const bool commit : {false, true}) {
        try {
          const auto sink = kind.make(scratch / "c");
          sink->begin(bytes.size());
          sink->write(100, std::span(bytes).first(commit ? bytes.size() - 100 : 3'000'000));
          sink->commit();
          return 1;
        } catch (const Error& error) {
          const std::string expected = (scratch / "c").string() + ": No space left on device";
          if (error.code() != ErrorCode::io || std::string(error.what()).find(expected) == std::string::npos)
            return 2;
        }
        if (bytes_of(scratch / "c") != "old" || entries(scratch.path()) != 1) return 3;
      }
      return 0;
    });
    EXPECT_THAT(code, ::testing::AnyOf(0, 77)) << kind.name;
  }
}

TEST(Sinks, AFolderThatCannotBeWrittenIsAnErrorThatNamesTheFile) {
  const Scratch scratch;
  for (const Kind& kind : kinds()) {
    const int code = exit_code_within("tmpfs", "size=1m", MS_RDONLY, scratch.path(), [&] {
      try {
        kind.make(scratch / "c")->begin(10);
      } catch (const Error& error) {
        const std::string expected = (scratch / "c").string() + ": Read-only file system";
        const bool good =
            error.code() == ErrorCode::io && std::string(error.what()).find(expected) != std::string::npos;
        return good && entries(scratch.path()) == 0 ? 0 : 2;
      }
      return 1;
    });
    EXPECT_THAT(code, ::testing::AnyOf(0, 77)) << kind.name;
  }
}

TEST(Sinks, WhatIsNoRegularFileIsNotReplaced) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "folder");
  for (const Kind& kind : kinds())
    EXPECT_ERROR(kind.make(scratch / "folder")->begin(10), bad_input, "is not a regular file");
  EXPECT_EQ(scratch.entries(), 1U);
}

TEST(SharedSink, RefusesFileSystemsThatMixPagesOfSeveralMachines) {
  const Scratch scratch;
  for (const std::uint32_t kind : {0x6969U, 0xff534d42U, 0xfe534d42U}) {
    file_system = kind;
    EXPECT_ERROR(SharedSink(scratch / "c").begin(1000), unsupported, "is on NFS or SMB");
    file_system = 0;
    EXPECT_EQ(scratch.entries(), 0U);
  }
  PlainSink(scratch / "c").begin(1000);
}

TEST(SharedSink, AllMustAgreeOnTheSizeAndFindTheFile) {
  const Scratch scratch;
  SharedSink first(scratch / "c");
  first.begin(1000);
  EXPECT_ERROR(SharedSink(scratch / "c", first.temporary()).begin(999), conflict, "1000 bytes and not 999");
  EXPECT_ERROR(SharedSink(scratch / "c", ".c.tmp-000000").begin(1000), not_found, ".c.tmp-000000");
}

}  // namespace
}  // namespace bitrift::ckpt::sink_test
