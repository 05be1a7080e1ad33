#include "archive/pickle.h"

#include "archive/torch_pickle.h"
#include "unit/archive/zip_bytes.h"
#include "unit/scratch.h"

namespace bitrift::archive {
namespace {

std::vector<TorchTensor> tensors(const std::string& pickle) {
  return contents_of_pickle({reinterpret_cast<const std::uint8_t*>(pickle.data()), pickle.size()},
                            "f.pt: data.pkl")
      .tensors;
}

std::string text(const std::string& value) { return "X" + little(value.size(), 4) + value; }
std::string number(unsigned value) { return "J" + little(value, 4); }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string sizes(const std::vector<unsigned>& values) {
  std::string all = "(";
  for (const unsigned value : values) all += number(value);
  return all + "t";
}

/// What torch.save writes for a tensor over storage "0" of `elements` floats.
std::string tensor(unsigned elements, unsigned offset, const std::vector<unsigned>& shape,
                   const std::vector<unsigned>& strides) {
  const std::string storage = "(" + text("storage") + global("torch", "FloatStorage") + text("0") +
                              text("cpu") + number(elements) + "tQ";
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + number(offset) + sizes(shape) +
         sizes(strides) + "\x89" + global("collections", "OrderedDict") + ")RtR";
}

const std::string proto = "\x80\x02";

TEST(TorchPickle, KeysBecomePaths) {
  const auto found =
      tensors(proto + "}(" + text("model") + "}(" + text("fc.weight") + tensor(6, 0, {2, 3}, {3, 1}) + "u" +
              text("list") + "](" + tensor(6, 2, {2}, {2}) + "N" + "e" + number(7) + number(1) + "u.");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, "model/fc.weight");
  EXPECT_EQ(found[0].storage_bytes, 24U);
  EXPECT_EQ(found[0].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(found[0].strides, (std::vector<std::uint64_t>{12, 4}));
  EXPECT_EQ(found[1].path, "list/0");
  EXPECT_EQ(found[1].first, 8U);
  EXPECT_EQ(found[1].end, 20U);
}

TEST(TorchPickle, TextsOfTheOutermostDictAreKept) {
  const std::string items = text("spec") + text("{}") + text("epoch") + number(3) + text("w") +
                            tensor(1, 0, {}, {}) + number(4) + text("four") + text("inner") + "}(" +
                            text("hidden") + text("no") + "u" + text("spec") + text("last");
  const std::string ordered = global("collections", "OrderedDict") + ")R(";
  for (const std::string& dict : {std::string("}("), ordered}) {
    const std::string pickle = proto + dict + items + "u.";
    const TorchContents found = contents_of_pickle(
        {reinterpret_cast<const std::uint8_t*>(pickle.data()), pickle.size()}, "f.pt: data.pkl");
    EXPECT_EQ(found.texts, (std::map<std::string, std::string>{{"spec", "last"}}));
    EXPECT_EQ(found.tensors.size(), 1U);
  }
}

TEST(TorchPickle, AloneATensorHasANameToo) {
  EXPECT_EQ(tensors(proto + tensor(1, 0, {}, {}) + ".").at(0).path, "tensor");
}

TEST(TorchPickle, NoOtherObjectIsCalled) {
  const std::string call = proto + global("os", "system") + "(" + text("touch /tmp/never") + "tR.";
  EXPECT_ERROR(tensors(call), unsupported, "needs the Python object os.system, which bitrift neither");
  // STACK_GLOBAL, in a value that is thrown away
  const std::string hidden = proto + text("builtins") + text("eval") + "\x93" + "0}.";
  EXPECT_ERROR(tensors(hidden), unsupported, "builtins.eval");
  EXPECT_ERROR(tensors(proto + "i" + "os\nsystem\n" + "."), unsupported, "opcode 0x69 at byte 2");
}

TEST(TorchPickle, ATensorOutsideOfItsStorageIsRefused) {
  EXPECT_EQ(tensors(proto + tensor(6, 0, {6}, {1}) + ".").size(), 1U);
  EXPECT_ERROR(tensors(proto + tensor(6, 1, {6}, {1}) + "."), bad_file, "outside of its storage of 24");
  EXPECT_ERROR(tensors(proto + tensor(6, 0, {2, 2}, {5, 1}) + "."), bad_file, "outside of its storage");
  EXPECT_ERROR(tensors(proto + tensor(6, 0, {2}, {3, 1}) + "."), bad_file, "do not fit");
  EXPECT_ERROR(tensors(proto + tensor(6, 0, {2, 0x80000000U}, {1, 1}) + "."), bad_file, "no size");
  EXPECT_ERROR(
      tensors(proto + tensor(6, 0, {0x7fffffff, 0x7fffffff, 0x7fffffff, 2}, {0x7fffffff, 1, 1, 1}) + "."),
      bad_file, "outside of its storage");
}

TEST(TorchPickle, CirclesAndRepetitionsEnd) {
  const std::string circle = proto + "]q" + little(0, 1) + "h" + little(0, 1) + "a.";
  EXPECT_ERROR(tensors(circle), bad_file, "nested more than 64 deep");
  std::string doubling = proto + "]q" + little(0, 1);
  for (unsigned i = 0; i < 40; ++i) {
    doubling += "](h" + little(i, 1) + "h" + little(i, 1) + "eq" + little(i + 1, 1);
  }
  EXPECT_ERROR(tensors(doubling + "."), bad_file, "repeats its values too often");
  std::string many = proto + tensor(1, 0, {}, {}) + "q" + little(0, 1);
  for (unsigned i = 0; i < 12; ++i) {
    many += "](h" + little(i, 1) + "h" + little(i, 1) + "eq" + little(i + 1, 1);
  }
  EXPECT_ERROR(tensors(many + "."), bad_file, "repeats its values too often");
}

TEST(Pickle, DamageIsRefusedWithItsPlace) {
  for (const char* const damaged : {"", "\x80\x02",
                                    "\x80\x02"
                                    "0.",
                                    "\x80\x02"
                                    "h\x05.",
                                    "\x80\x02"
                                    "(.",
                                    "\x80\x02"
                                    "u.",
                                    "\x80\x02"
                                    "}N"
                                    "s.",
                                    "\x80\x02"
                                    "X\xff\xff\xff\x7f"
                                    "a.",
                                    "\x80\x02"
                                    "R."}) {
    EXPECT_ERROR(tensors(damaged), bad_file, "f.pt: data.pkl: the pickle");
  }
  EXPECT_ERROR(tensors("\x80\x06."), unsupported, "protocol 6");
}

TEST(Pickle, ValuesAreAsPythonWroteThem) {
  // pickle.dumps([1, -2, 300, 2**40, -2**40, 2**70, True, b"x"], protocol=3)
  const std::string bytes(
      "\x80\x03]q\x00(K\x01J\xfe\xff\xff\xffM,\x01\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x06\x00\x00\x00"
      "\x00\x00\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00@\x88"
      "C\x01xq\x01"
      "e.",
      51);
  const Pickle pickle({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, "f");
  const auto& items = pickle[pickle.root()].items;
  ASSERT_EQ(items.size(), 8U);
  const std::vector<std::int64_t> expected = {1, -2, 300, std::int64_t{1} << 40, -(std::int64_t{1} << 40)};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(pickle[items[i]].integer, expected[i]);
  EXPECT_EQ(pickle[items[5]].kind, PickleKind::long_integer);
  EXPECT_EQ(pickle[items[6]].kind, PickleKind::truth);
  EXPECT_EQ(pickle[items[7]].text, "x");
}

}  // namespace
}  // namespace bitrift::archive
