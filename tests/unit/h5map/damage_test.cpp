// Files that are damaged or made to do harm: each is read, or refused in one line.
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "h5map/h5_file.h"
#include "unit/scratch.h"

namespace bitrift::h5map::damage_test {
namespace {

using ::bitrift::testing::bytes_of;
using ::bitrift::testing::python;
using ::bitrift::testing::Scratch;
using ::bitrift::testing::write_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::vector<std::uint8_t>;

Bytes made_by(const std::string& script) {
  const Scratch scratch;
  EXPECT_TRUE(python(scratch / "made.h5", script));
  const std::string text = bytes_of(scratch / "made.h5");
  return {text.begin(), text.end()};
}

/// A small file of the older format.
const Bytes& old_file() {
  static const Bytes bytes = made_by(
      "with h5py.File(path, 'w') as f:\n"
      "  f['a/x'] = np.arange(3.)\n"
      "  f['b'] = np.zeros(2, np.dtype([('p', 'f4'), ('q', 'i2', (2,))]))\n"
      "  f['a/x'].attrs['n'] = np.arange(2)\n"
      "  f['t'] = np.dtype('f4')\n"
      "  d = f.create_dataset('c', (4,), dtype=f['t'], chunks=(2,), compression='gzip')\n"
      "  d[:] = 1\n"
      "  f['e'] = np.array([True])\n"
      "  f.attrs['text'] = 'vlen'\n");
  return bytes;
}

/// One of the newer format, with heaps, indexes and a virtual dataset.
const Bytes& new_file() {
  static const Bytes bytes = made_by(
      "with h5py.File(path, 'w', libver='latest', track_order=True) as f:\n"
      "  for i in range(9): f['g%d' % i] = h5py.SoftLink('x')\n"
      "  f['c'] = np.arange(3, dtype='c8')\n"
      "  d = f.create_dataset('k', (4, 4), 'f4', chunks=(2, 2), maxshape=(None, 4), fletcher32=True)\n"
      "  d[:] = 1\n"
      "  for i in range(9): d.attrs['a%d' % i] = i\n"
      "  v = h5py.VirtualLayout((3,), 'f4')\n"
      "  v[:] = h5py.VirtualSource('other.h5', 'data', (3,))\n"
      "  f.create_virtual_dataset('v', v)\n");
  return bytes;
}

/// Everything that a file can be asked for.
void ask_everything(const File& file) {
  for (const Dataset& dataset : file.datasets()) {
    EXPECT_EQ(dataset.problem.find('\n'), std::string::npos);
    EXPECT_FALSE(dataset.type && dataset.type->name().empty());
    EXPECT_TRUE(dataset.type || !dataset.problem.empty());
    try {
      (void)file.attributes(dataset.header);
    } catch (const Error&) {
      // A header that cannot be read; the dataset said so.
    }
  }
  (void)file.root_texts();
  for (const Group& group : file.groups()) (void)file.texts(group.path, "layer_names");
  (void)file.structures();
}

/// Whether the file could be read; anything but an Error of one line about the file fails the test.
bool survives(Bytes bytes) {
  try {
    ask_everything(File(Source(std::move(bytes), "damaged.h5")));
    return true;
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("damaged.h5: ", 0), 0U) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_TRUE(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported) << text;
    return false;
  }
}

void damage_every_byte(const Bytes& bytes, const std::function<void(Bytes&, std::size_t)>& mend) {
  ASSERT_TRUE(survives(bytes));
  const File whole(Source(bytes, "whole.h5"));
  std::vector<bool> used(bytes.size(), true);
  const StructureMap map = whole.structures();
  for (const Extent& extent : map.extents()) {
    const bool idle = extent.kind == "unused" || extent.kind.rfind("raw data", 0) == 0;
    for (auto at = extent.first; idle && at < extent.end; ++at) used[at] = false;
  }
  constexpr std::array<std::uint8_t, 4> patterns = {0xff, 0x01, 0x80, 0x10};
  std::size_t read = 0, refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!used[i]) continue;
    Bytes copy = bytes;
    copy[i] ^= patterns[i % patterns.size()];
    mend(copy, i);
    survives(std::move(copy)) ? ++read : ++refused;
  }
  EXPECT_GT(read, 100U);
  EXPECT_GT(refused, 100U);
}

std::uint32_t word_at(const Bytes& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::uint32_t{bytes[at + i]} << (8 * i);
  return value;
}

void put(Bytes& bytes, std::size_t at, std::uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

/// Every structure with a checksum after it: begins with a signature, ends where its bytes sum up.
std::vector<Seal> seals_of(const Bytes& bytes) {
  std::vector<Seal> seals;
  for (std::size_t first = 0; first + 12 <= bytes.size(); ++first) {
    const std::string name(bytes.begin() + static_cast<std::ptrdiff_t>(first),
                           bytes.begin() + static_cast<std::ptrdiff_t>(first) + 4);
    static const std::vector<std::string> known = {"\x89HDF", "OHDR", "OCHK", "FRHP", "FHIB", "BTHD", "BTLF",
                                                   "BTIN",    "FSHD", "EAHD", "EAIB", "EADB", "FAHD", "FADB"};
    if (std::find(known.begin(), known.end(), name) == known.end()) continue;
    for (std::size_t at = first + 8; at + 4 <= std::min(bytes.size(), first + 1500); ++at) {
      if (lookup3(std::span(bytes).subspan(first, at - first)) == word_at(bytes, at))
        seals.push_back({first, at});
    }
  }
  return seals;
}

std::uint64_t find(const Bytes& bytes, const std::string& text, std::size_t from = 0) {
  const auto found =
      std::search(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), text.begin(), text.end());
  EXPECT_NE(found, bytes.end()) << text;
  return static_cast<std::uint64_t>(found - bytes.begin());
}

std::uint64_t find_word(const Bytes& bytes, std::uint64_t value) {
  std::string text(8, '\0');
  for (unsigned i = 0; i < 8; ++i) text[i] = static_cast<char>(value >> (8 * i));
  return find(bytes, text);
}

std::map<std::string, std::string> problems(const Bytes& bytes) {
  const File file(Source(bytes, "f.h5"));
  std::map<std::string, std::string> found;
  for (const Dataset& dataset : file.datasets()) found[dataset.path] = dataset.problem;
  return found;
}

TEST(Damage, AnyByteOfAnOldFileMayBeWrong) {
  damage_every_byte(old_file(), [](Bytes&, std::size_t) {});
}

TEST(Damage, AnyByteOfANewFileMayBeWrong) {
  damage_every_byte(new_file(), [](Bytes&, std::size_t) {});
}

TEST(Damage, AnyByteOfANewFileMayBeWrongWithItsChecksumMended) {
  const std::vector<Seal> seals = seals_of(new_file());
  ASSERT_GT(seals.size(), 12U);
  damage_every_byte(new_file(), [&](Bytes& bytes, std::size_t i) {
    for (const Seal& seal : seals) {
      if (i < seal.first || i >= seal.at) continue;
      put(bytes, seal.at, lookup3(std::span(bytes).subspan(seal.first, seal.at - seal.first)), 4);
    }
  });
}

TEST(Damage, AFileThatWasCutAnywhereIsRefused) {
  for (const Bytes* whole : {&old_file(), &new_file()}) {
    for (std::size_t size = 0; size < whole->size(); size += size < 200 ? 1 : 37) {
      EXPECT_FALSE(survives(Bytes(whole->begin(), whole->begin() + static_cast<std::ptrdiff_t>(size))))
          << size;
    }
  }
  Bytes cut(old_file().begin(), old_file().end() - 1);
  EXPECT_ERROR(File(Source(cut, "cut.h5")), bad_file, "cut.h5: is truncated");
}

TEST(Damage, OnlyTheDatasetWhoseHeaderIsDamagedHasAProblem) {
  Bytes bytes = old_file();
  std::uint64_t header = 0;
  const File file(Source(bytes, "f.h5"));
  for (const Dataset& dataset : file.datasets()) {
    if (dataset.path == "b") header = dataset.header;
  }
  bytes[header] = 9;
  auto found = problems(bytes);
  EXPECT_EQ(found.size(), 4U);
  EXPECT_THAT(found["b"], HasSubstr("object header at byte"));
  EXPECT_EQ(found["a/x"] + found["c"] + found["e"], "");
}

TEST(Damage, AnUnknownMessageIsPassedOverUnlessItForbidsThat) {
  Bytes bytes = old_file();
  const File file(Source(bytes, "f.h5"));
  std::uint64_t at = 0;
  for (const Dataset& dataset : file.datasets()) {
    if (dataset.path == "b") at = dataset.header + 16;
  }
  constexpr std::uint8_t fill_value = 0x05;
  while (bytes.at(at) != fill_value) at += 8 + bytes[at + 2] + 256U * bytes[at + 3];
  bytes[at] = 0x30;
  EXPECT_EQ(problems(bytes)["b"], "");
  for (const std::uint8_t flag : Bytes{0x08, 0x80}) {
    bytes[at + 4] = flag;
    EXPECT_THAT(problems(bytes)["b"], HasSubstr("a message of unknown type 48 that may not be passed over"));
  }
}

TEST(Damage, BytesThatWouldLieOutsideAreRefused) {
  Bytes bytes = old_file();
  const File file(Source(bytes, "f.h5"));
  for (const Dataset& dataset : file.datasets()) {
    if (dataset.path == "a/x") put(bytes, find_word(bytes, dataset.layout.offset), bytes.size() - 8, 8);
  }
  EXPECT_THAT(problems(bytes)["a/x"], HasSubstr("lie outside of the file"));
}

TEST(Damage, ADamagedGroupIsAnErrorThatNamesIt) {
  Bytes bytes = old_file();
  // The name of the link "x" in group "a".
  const auto heap = find(bytes, "HEAP", find(bytes, "HEAP") + 1);
  const auto name = find(bytes, std::string("x\0", 2), heap);
  bytes[name] = '/';
  EXPECT_ERROR(problems(bytes), bad_file, "f.h5: group /a: a link has the name \"/\"");
  bytes[name] = 0;
  EXPECT_ERROR(problems(bytes), bad_file, "f.h5: group /a: a link has the name \"\"");
  bytes = old_file();
  bytes[heap] = 'h';
  EXPECT_ERROR(problems(bytes), bad_file, "f.h5: group /a: local heap at byte");
}

TEST(Damage, MessagesStayOneLineWhateverNamesAre) {
  Bytes bytes = old_file();
  const auto heap = find(bytes, "HEAP");
  bytes[find(bytes, std::string("a\0", 2), heap)] = '\n';
  bytes[find(bytes, std::string("b\0", 2), heap)] = '\n';
  EXPECT_ERROR(problems(bytes), bad_file, "two links have the name \"\\x0a\"");
}

TEST(Damage, AHeaderThatContinuesInACircleIsRefused) {
  Bytes bytes = made_by(
      "with h5py.File(path, 'w') as f:\n"
      "  d, e = (f.create_dataset(n, (3,), 'f4') for n in 'de')\n"
      "  for i in range(40):\n"
      "    for x in (d, e): x.attrs['attribute %d' % i] = i\n");
  std::vector<std::uint64_t> links;  // where a continuation message has its address
  const std::string message("\x10\0\x10\0\0\0\0\0", 8);
  for (auto from = bytes.begin();;) {
    from = std::search(from, bytes.end(), message.begin(), message.end());
    if (from == bytes.end()) break;
    from += 8;
    links.push_back(static_cast<std::uint64_t>(from - bytes.begin()));
  }
  ASSERT_GE(links.size(), 2U);
  for (const std::uint64_t link : links) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(links[0]), 16,
                bytes.begin() + static_cast<std::ptrdiff_t>(link));
  }
  EXPECT_THAT(problems(bytes)["d"], HasSubstr("twice"));
}

TEST(Damage, GroupsAreNestedOnlySoDeep) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "deep.h5",
                     "with h5py.File(path, 'w') as f: f['/'.join(['g'] * 256) + '/x'] = 1\n"
                     "with h5py.File(path + '2', 'w') as f: f['/'.join(['g'] * 257) + '/x'] = 1\n"));
  const File just(scratch / "deep.h5"), deeper(scratch / "deep.h52");
  EXPECT_EQ(just.datasets().size(), 1U);
  EXPECT_ERROR((void)deeper.datasets(), bad_file, "nested more than 256 deep");
}

TEST(Damage, FilesInPiecesAreRefusedByName) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "family",
                     "for v in ('earliest', 'latest'):\n"
                     "  with h5py.File(path + '%d' + v, 'w', driver='family', memb_size=1 << 20, libver=v) "
                     "as f: f['x'] = 1\n"
                     "with h5py.File(path + '.s', 'w', driver='split') as f: f['x'] = 1\n"));
  EXPECT_ERROR(File(scratch / "family0earliest"), unsupported, "NCSAfami");
  EXPECT_ERROR(File(scratch / "family0latest"), unsupported, "NCSAfami");
  EXPECT_ERROR(File(scratch / "family.s-m.h5"), unsupported, "NCSAmult");
}

TEST(Damage, WhatIsNoHdf5FileIsSaidSo) {
  const Scratch scratch;
  write_bytes(scratch / "empty", "");
  write_bytes(scratch / "text", std::string(5000, 'x'));
  EXPECT_ERROR(File(scratch / "empty"), bad_file, "is empty, not an HDF5 file");
  EXPECT_ERROR(File(scratch / "text"), bad_file, "is not an HDF5 file");
  EXPECT_ERROR(File(scratch.path()), bad_file, "is a directory");
  EXPECT_ERROR(File(scratch / "missing"), not_found, "missing");
}

// Twenty thousand object headers of version 1, each of which begins 16 bytes after the one before and takes
// everything to the end of the file for its own.
TEST(Damage, HeadersThatOverlapDoNotCostMoreThanTheFileIsWorth) {
  Bytes bytes = made_by(
      "with h5py.File(path, 'w') as f:\n"
      "  for i in range(20000): h5py.h5g.create(f.id, b'%d' % i) if i == 0 else f.id.links.create_hard(b'%d' "
      "% i, f.id, b'0')\n");
  std::vector<std::uint64_t> tables;
  const StructureMap map = File(Source(bytes, "f.h5")).structures();
  for (const Extent& extent : map.extents()) {
    if (extent.kind == "symbol table node") {
      for (auto at = extent.first; at + 8 < extent.end; at += 328) tables.push_back(at);
    }
  }
  const std::uint64_t first = bytes.size();
  bytes.resize(first + 16 * 20000);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    bytes[first + 16 * i] = 1;
    put(bytes, first + 16 * i + 8, bytes.size() - (first + 16 * i + 16), 4);
  }
  std::uint64_t next = 0;
  for (const std::uint64_t table : tables) {
    for (unsigned i = 0; i < bytes[table + 6]; ++i)
      put(bytes, table + 8 + 40 * i + 8, first + 16 * next++, 8);
  }
  ASSERT_GT(next, 10000U);
  put(bytes, 40, bytes.size(), 8);
  EXPECT_ERROR(problems(bytes), bad_file, "takes more than a file of its size can need");
}

TEST(Damage, AHugeClaimInAFileOfHolesIsRefused) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "f.h5", "with h5py.File(path, 'w') as f: f['x'] = 1\n"));
  Bytes bytes;
  {
    const std::string text = bytes_of(scratch / "f.h5");
    bytes.assign(text.begin(), text.end());
  }
  put(bytes, find(bytes, "HEAP") + 8, std::uint64_t{1} << 32U, 8);
  write_bytes(scratch / "f.h5", std::string(bytes.begin(), bytes.end()));
  std::filesystem::resize_file(scratch / "f.h5", std::uint64_t{1} << 34U);
  const File file(scratch / "f.h5");
  EXPECT_ERROR((void)file.datasets(), bad_file, "too large to be true");
}

}  // namespace
}  // namespace bitrift::h5map::damage_test
