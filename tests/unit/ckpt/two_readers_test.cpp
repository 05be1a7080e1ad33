// The reader of our own and the one that asks libhdf5, over files of every kind.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "h5/file.h"
#include "h5map/file.h"
#include "unit/h5map/corpus.h"

#ifdef __SANITIZE_ADDRESS__
// libhdf5 1.10 loses memory when it meets what it does not know.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
#endif

namespace bitrift {
namespace {

class TwoReaders : public h5map::testing::CorpusTest {};

h5::Layout layout_of(const h5map::Dataset& dataset) {
  switch (dataset.layout.storage) {
    case h5map::Storage::contiguous:
      return h5::Layout::contiguous;
    case h5map::Storage::compact:
      return h5::Layout::compact;
    case h5map::Storage::chunked:
      return h5::Layout::chunked;
    case h5map::Storage::virtual_source:
      return h5::Layout::virtual_source;
    case h5map::Storage::external:
      return h5::Layout::external;
  }
  return h5::Layout::unknown;
}

void compare(const h5::DatasetInfo& theirs, const h5map::Dataset& ours, const std::string& where) {
  EXPECT_EQ(ours.problem, "") << where;
  ASSERT_NE(ours.type, nullptr) << where;
  if (theirs.type.format || !ours.type->number()) {  // the other one knows fewer formats
    EXPECT_EQ(ours.type->name(), theirs.type.name) << where;
    EXPECT_EQ(ours.type->number(), theirs.type.format) << where;
  }
  if (ours.type->plain()) {  // elsewhere the library gives the size in memory
    EXPECT_EQ(ours.type->bytes, theirs.type.bytes) << where;
  }
  EXPECT_EQ(ours.type->plain(), theirs.type.plain) << where;
  EXPECT_EQ(ours.space.shape, theirs.shape) << where;
  EXPECT_EQ(layout_of(ours), theirs.layout) << where;
  EXPECT_EQ(!ours.layout.filters.empty(), theirs.filtered) << where;
  EXPECT_EQ(theirs.offset.value_or(ours.layout.offset), ours.layout.offset) << where;
}

TEST_F(TwoReaders, AgreeWhereverLibhdf5CanRead) {
  std::size_t compared = 0, unreadable = 0;
  for (const auto& path : files()) {
    std::vector<h5::DatasetInfo> theirs;
    try {
      theirs = h5::File(path).datasets();
    } catch (const Error&) {
      // A library older than the file refuses it, or a group of it, as a whole.
      EXPECT_NE(path.filename().string().find("latest"), std::string::npos) << path;
      continue;
    }
    const h5map::File file(path);
    ASSERT_EQ(file.datasets().size(), theirs.size()) << path;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      ASSERT_EQ(file.datasets()[i].path, theirs[i].path) << path;
      if (!theirs[i].problem.empty() || theirs[i].type.name == "other") {
        ++unreadable;  // what came after that library: complex types, layouts of version 5
        continue;
      }
      compare(theirs[i], file.datasets()[i], path.string() + ": " + theirs[i].path);
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000U);
  EXPECT_LT(unreadable, compared / 4);
}

// Of an older file: libhdf5 1.10 crashes when it closes one whose root has an attribute of a newer type.
TEST_F(TwoReaders, AgreeOnTheTextsOfTheRoot) {
  const auto texts = h5::File(corpus("order_earliest.h5")).attributes();
  EXPECT_EQ(h5map::File(corpus("order_earliest.h5")).root_texts(), texts);
  EXPECT_EQ(texts.count("text"), 1U);
}

}  // namespace
}  // namespace bitrift
