#include "archive/pickle/pickle.h"

#include "archive/pickle/torch_pickle.h"
#include "unit/archive/zip_bytes.h"
#include "unit/scratch.h"

namespace bitrift::archive {
namespace {

std::vector<TorchTensor> tensors(const std::string& pickle) {
  return contents_of_pickle(
             {{reinterpret_cast<const std::uint8_t*>(pickle.data()), pickle.size()}, "f.pt: data.pkl"},
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
        {{reinterpret_cast<const std::uint8_t*>(pickle.data()), pickle.size()}, "f.pt: data.pkl"},
        "f.pt: data.pkl");
    EXPECT_EQ(found.texts, (std::map<std::string, std::string>{{"spec", "last"}}));
    EXPECT_EQ(found.tensors.size(), 1U);
  }
}

TEST(TorchPickle, AloneATensorHasANameToo) {
  EXPECT_EQ(tensors(proto + tensor(1, 0, {}, {}) + ".").at(0).path, "tensor");
}

std::vector<std::string> paths(const std::string& pickle) {
  std::vector<std::string> all;
  for (const TorchTensor& one : tensors(pickle)) all.push_back(one.path);
  return all;
}

using Paths = std::vector<std::string>;
const std::string held = tensor(1, 0, {}, {});

TEST(TorchPickle, OtherObjectsHoldTensorsAndAreNotCalled) {
  const std::string system = global("os", "system"), command = "(" + text("touch /tmp/never") + "tR";
  EXPECT_EQ(paths(proto + system + command + "."), Paths());
  EXPECT_EQ(paths(proto + "}(" + text("w") + held + text("x") + system + command + "u."), Paths{"w"});
  // Its only argument, or its arguments by number; elements; attributes, of modules by the names of a
  // state_dict.
  EXPECT_EQ(paths(proto + system + "(" + held + "tR."), Paths{"tensor"});
  EXPECT_EQ(paths(proto + system + "(" + number(1) + held + "tR."), Paths{"1"});
  EXPECT_EQ(paths(proto + system + ")R(" + number(1) + held + "e" + held + "a."), (Paths{"1", "2"}));
  EXPECT_EQ(paths(proto + system + ")R}(" + text("a") + held + "ub."), Paths{"a"});
  EXPECT_EQ(paths(proto + system + ")\x81}(" + text("_parameters") + "}(" + text("w") + held + "u" +
                  text("_modules") + "}(" + text("fc") + system + ")\x81}(" + text("_buffers") + "}(" +
                  text("b") + held + "uubuub."),
            (Paths{"w", "fc/b"}));
  EXPECT_EQ(paths(proto + system + ")N\x92."), Paths());
  EXPECT_EQ(paths(proto + system + ")}(" + text("a") + held + "u\x92."), Paths{"a"});
  EXPECT_EQ(paths(proto + "\x8f(" + number(1) + held + "\x90."), Paths{"1"});  // a set
  // An OrderedDict of pairs, and of an object with a state.
  const std::string ordered = global("collections", "OrderedDict");
  EXPECT_EQ(paths(proto + ordered + "(](](" + text("w") + held + "eetR."), Paths{"w"});
  EXPECT_EQ(paths(proto + ordered + "(" + system + ")R}(" + text("w") + held + "ubtR."), Paths{"w"});
  EXPECT_EQ(paths(proto + ordered + "(](" + system + ")R}betR."), Paths());
  // What stands where a callable should.
  EXPECT_EQ(paths(proto + number(1) + "(" + held + "tR."), Paths{"tensor"});
}

TEST(TorchPickle, ARecurrentModuleListsItsParametersTwice) {
  const auto module = [](const std::string& listed) {
    return proto + global("torch.nn", "LSTM") + ")\x81}(" + text("_parameters") + "}(" + text("w") + held +
           "q\x05" + text("b") + held + "q\x06u" + text("_flat_weights") + "](" + listed + "eub.";
  };
  EXPECT_EQ(paths(module("h\x05h\x06")), (Paths{"w", "b"}));
  EXPECT_EQ(paths(module("h\x05" + held)), (Paths{"w", "b", "_flat_weights/0", "_flat_weights/1"}));
}

// The file of a mixture of experts with 90,000 parameters and the states of its optimizer has millions.
TEST(TorchPickle, MillionsOfValuesAreRead) {
  const auto found = tensors(proto + "}(" + text("many") + "](" + std::string(6'000'000, 'N') + "e" +
                             text("w") + tensor(1, 0, {}, {}) + "u.");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "w");
}

TEST(TorchPickle, OpcodesOfProtocol0AreRead) {
  EXPECT_EQ(paths("(" + held + "ios\nsystem\n."), Paths{"tensor"});
  EXPECT_EQ(paths("(" + global("os", "system") + "I1\n" + held + "o."), Paths{"1"});
  EXPECT_EQ(paths("}(Va\n" + held + "p7\nS'b'\ng7\nL12345678901234567890L\nF1.5\nu."), (Paths{"a", "b"}));
  EXPECT_ERROR(tensors("(o."), bad_file, "a value is missing");
  EXPECT_ERROR(tensors("Ix\n."), bad_file, "a number is expected");
  EXPECT_ERROR(tensors("g99999999999\n."), bad_file, "a number is expected");
  EXPECT_ERROR(tensors("g1\n."), bad_file, "never kept");
}

TEST(TorchPickle, TensorsWithAttributesAreTensors) {
  const auto rebuilt = [](const std::string& state) {
    return global("torch._tensor", "_rebuild_from_type_v2") + "(" + held.substr(0, held.find('(')) +
           global("torch", "Tensor") + held.substr(held.find('('), held.size() - held.find('(') - 1) + state +
           "tR";
  };
  EXPECT_EQ(paths(proto + rebuilt("}") + "."), Paths{"tensor"});
  EXPECT_EQ(paths(proto + "}(" + text("p") + rebuilt("}(" + text("grad") + held + "u") + "u."),
            (Paths{"p", "p/grad"}));
}

TEST(TorchPickle, LazyViewsAreMarked) {
  const auto marked = [](const std::string& marks) {
    return tensors(proto + held.substr(0, held.size() - 2) + "}(" + marks + "utR.").at(0);
  };
  EXPECT_TRUE(marked(text("neg") + "\x88").negated);
  EXPECT_FALSE(marked(text("neg") + "\x89").negated);
  EXPECT_TRUE(marked(text("conj") + "\x88").conjugated);
  EXPECT_FALSE(marked(text("conj") + "\x88").negated);
}

TEST(TorchPickle, ATensorOutsideOfItsStorageIsRefused) {
  EXPECT_EQ(tensors(proto + tensor(6, 0, {6}, {1}) + ".").size(), 1U);
  EXPECT_ERROR(tensors(proto + tensor(6, 1, {6}, {1}) + "."), bad_file, "outside of its storage of 24");
  EXPECT_ERROR(tensors(proto + tensor(6, 0, {2, 2}, {5, 1}) + "."), bad_file, "outside of its storage");
  EXPECT_ERROR(tensors(proto + tensor(6, 0, {2}, {3, 1}) + "."), bad_file, "do not fit");
  EXPECT_ERROR(tensors(proto + tensor(6, 0, {2, 0x80000000U}, {1, 1}) + "."), bad_file, "not a size");
  EXPECT_ERROR(
      tensors(proto + tensor(6, 0, {0x7fffffff, 0x7fffffff, 0x7fffffff, 2}, {0x7fffffff, 1, 1, 1}) + "."),
      bad_file, "outside of its storage");
}

TEST(TorchPickle, CirclesAndRepetitionsEnd) {
  const std::string circle = proto + "]q" + little(0, 1) + "h" + little(0, 1) + "a.";
  EXPECT_EQ(paths(circle), Paths());
  EXPECT_EQ(paths(proto + "]q" + little(0, 1) + "(h" + little(0, 1) + held + "e."), Paths{"1"});
  EXPECT_ERROR(tensors(proto + std::string(600, ']') + std::string(599, 'a') + "."), unsupported,
               "nested more than 512 deep");
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
