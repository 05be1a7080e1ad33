#include "study/reader/native_reader.h"

#include <fstream>

#include <gtest/gtest.h>

#include "unit/places.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

constexpr double plenty = 60;

class NativeReaderTest : public ::testing::Test {
 protected:
  NativeReaderTest() {
    const std::filesystem::path own =
        std::filesystem::path(bitrift::testing::source_dir) / ".venv/bin/python";
    const std::string python = std::filesystem::exists(own) ? own.string() : "python3";
    const auto fake = std::filesystem::path(bitrift::testing::source_dir) / "tests/unit/study/fake_reader.py";
    bitrift::testing::write_bytes(scratch_ / "python",
                                  "#!/bin/sh\nexec " + python + " '" + fake.string() + "' \"$@\"\n");
    std::filesystem::permissions(scratch_ / "python", std::filesystem::perms::owner_all);
  }
  NativeReaderOptions options(const char* base = "base.h5") const {
    return {.interpreter = (scratch_ / "python").string(),
            .base = base,
            .formats = {Format::hdf5},
            .memory = 1,
            .log = scratch_ / "log"};
  }
  static std::string pid_of(const ReaderAnswer& answer) {
    return std::get<ReaderContents>(answer).digests.at("pid");
  }

  bitrift::testing::Scratch scratch_;
};

TEST_F(NativeReaderTest, KeepsOneProcessForManyReads) {
  NativeReader reader(options());
  EXPECT_EQ(reader.facts().digests.at("b"), "2");
  EXPECT_EQ(reader.facts().tensor_bytes, 12);
  EXPECT_FALSE(reader.facts().installed.at("dcp"));
  const std::string first = pid_of(reader.read(Format::hdf5, "a", plenty));
  EXPECT_EQ(pid_of(reader.read(Format::hdf5, "b", plenty)), first);
  EXPECT_EQ(std::get<ReaderRefused>(reader.read(Format::hdf5, "bad", plenty)).message, "E: bad");
  EXPECT_EQ(pid_of(reader.read(Format::hdf5, "c", plenty)), first);
}

TEST_F(NativeReaderTest, StartsAnotherProcessAfterACrashAHangAndALeftover) {
  NativeReader reader(options());
  std::string last = pid_of(reader.read(Format::hdf5, "a", plenty));
  const auto expect_new = [&] {
    const std::string now = pid_of(reader.read(Format::hdf5, "a", plenty));
    EXPECT_NE(now, last);
    last = now;
  };
  EXPECT_EQ(std::get<ReaderDied>(reader.read(Format::hdf5, "crash", plenty)).status.signal, 11);
  expect_new();
  EXPECT_EQ(std::get<ReaderDied>(reader.read(Format::hdf5, "exit", plenty)).status.code, 7);
  expect_new();
  EXPECT_TRUE(std::holds_alternative<ReaderHung>(reader.read(Format::hdf5, "hang", 0.3)));
  expect_new();
  EXPECT_EQ(pid_of(reader.read(Format::hdf5, "stale", plenty)), last);
  expect_new();
}

TEST_F(NativeReaderTest, SaysWhichElementChangedWhereItIsAsked) {
  NativeReader reader(options());
  const auto change = [&](const char* path, bool asked) {
    return std::get<ReaderContents>(reader.read(Format::hdf5, path, plenty, asked)).change;
  };
  EXPECT_EQ(change("change", true), (ValueChange{"w", 1, 0x10}));
  EXPECT_EQ(change("change", false), std::nullopt);
  EXPECT_EQ(change("a", true), std::nullopt);
}

TEST_F(NativeReaderTest, WritesAreAnsweredWithPlacesOrRefused) {
  NativeReader reader(options());
  const auto extents = reader.write(Format::dcp, "extents");
  ASSERT_EQ(extents.size(), 1);
  EXPECT_EQ(extents[0].end, 3);
  EXPECT_ERROR((void)reader.write(Format::hdf5, "bad"), io, "E: bad");
  EXPECT_ERROR((void)reader.write(Format::hdf5, "crash"), io, "signal 11");
}

TEST_F(NativeReaderTest, AProcessThatDoesNotStartIsAnErrorWithItsLastWords) {
  NativeReader mute(options("mute"));
  EXPECT_ERROR((void)mute.facts(), not_found, "no module named h5py");
  NativeReaderOptions none = options();
  none.interpreter = "/nowhere/python";
  NativeReader reader(none);
  EXPECT_ERROR((void)reader.facts(), not_found, "/nowhere/python");
  none.interpreter = "/bin/false";
  none.log = scratch_ / "empty";
  NativeReader silent(none);
  EXPECT_ERROR((void)silent.facts(), not_found, "it ends without a message");
}

}  // namespace
}  // namespace bitrift::study
