#include "sink/format/torch_image.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "archive/element_type.h"
#include "core/error.h"
#include "sink/format/zip_image.h"

namespace bitrift::ckpt {
namespace {

// The folder within the archive. torch.save uses the file's name for it, so that equal states in files of two
// names differ.
const std::string root = "archive/";

/// A pickle of protocol 2 (Python's pickletools names the opcodes). Repeated texts are taken from its memory.
class PickleText {
 public:
  PickleText() { op(0x80).op(2); }  // PROTO

  PickleText& op(unsigned opcode) {
    bytes_.push_back(static_cast<std::uint8_t>(opcode));
    return *this;
  }
  PickleText& text(std::string_view value) {
    return op('X').number(value.size(), 4).chars(value);  // BINUNICODE
  }
  PickleText& known_text(const char* value) {
    return remembered(value, [&] { text(value); });
  }
  /// "torch FloatStorage".
  PickleText& global(const std::string& module, std::string_view name) {
    const std::string line = module + "\n" + std::string(name) + "\n";
    return remembered(line, [&] { op('c').chars(line); });  // GLOBAL
  }
  PickleText& integer(std::uint64_t value) {
    if (value < 1U << 8U) return op('K').number(value, 1);   // BININT1
    if (value < 1U << 16U) return op('M').number(value, 2);  // BININT2
    if (value < 1U << 31U) return op('J').number(value, 4);  // BININT
    unsigned bytes = 5;  // LONG1: as few bytes as hold the value and a sign bit
    while (bytes < 8 && value >> (8 * bytes - 1) != 0) ++bytes;
    return op(0x8a).op(bytes).number(value, bytes);
  }
  PickleText& tuple(const std::vector<std::uint64_t>& values) {
    if (values.empty()) return op(')');  // EMPTY_TUPLE
    op('(');                             // MARK
    for (const std::uint64_t value : values) integer(value);
    return op('t');  // TUPLE
  }
  [[nodiscard]] std::vector<std::uint8_t> take() {
    op('.');  // STOP
    return std::move(bytes_);
  }

 private:
  PickleText& number(std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) op(static_cast<std::uint8_t>(value >> (8 * i)));
    return *this;
  }
  PickleText& chars(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  template <typename Make>
  PickleText& remembered(const std::string& what, const Make& make) {
    const auto [place, added] = memory_.try_emplace(what, memory_.size());
    if (!added) return op('h').number(place->second, 1);  // BINGET
    make();
    return op('q').number(place->second, 1);  // BINPUT; there are fewer than 30
  }

  std::vector<std::uint8_t> bytes_;
  std::map<std::string, std::size_t> memory_;
};

std::vector<std::uint64_t> row_major_strides(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::uint64_t>(shape[i], 1);
  return strides;
}

/// torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks). Types without a
/// class of storages have one of bytes, and _rebuild_tensor_v3 takes the type too.
void put_tensor(PickleText& pickle, const TensorMeta& meta, const std::string& key) {
  const std::string_view code = archive::torch_code(meta.format.name()).value();
  const bool typed = code.ends_with("Storage");
  pickle.global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3").op('(').op('(');
  pickle.known_text("storage");
  pickle.global(typed ? "torch" : "torch.storage", typed ? code : "UntypedStorage");
  pickle.text(key).known_text("cpu").integer(typed ? meta.elements() : meta.bytes());
  pickle.op('t').op('Q');  // BINPERSID
  pickle.integer(0).tuple(meta.shape).tuple(row_major_strides(meta.shape));
  pickle.op(0x89);  // NEWFALSE
  pickle.global("collections", "OrderedDict").op(')').op('R');
  if (!typed) pickle.global("torch", code);
  pickle.op('t').op('R');  // REDUCE
}

/// What the tensors of one dict have after the '/' of its name. The tensors of a deeper dict are neighbours.
class Dicts {
 public:
  Dicts(PickleText& pickle, const std::vector<TensorMeta>& metas) : pickle_(pickle), metas_(metas) {}

  /// The items of the dict of tensors [first, end), whose paths share the first `prefix` bytes.
  void put_items(std::size_t first, std::size_t end, std::size_t prefix) {
    for (std::size_t i = first; i < end;) {
      const std::string& path = metas_[i].path;
      const std::size_t slash = path.find('/', prefix);
      if (slash == std::string::npos) {
        pickle_.text(std::string_view(path).substr(prefix));
        put_tensor(pickle_, metas_[i], std::to_string(i));
        ++i;
        continue;
      }
      const std::string_view group = std::string_view(path).substr(0, slash + 1);
      std::size_t next = i;
      while (next < end && metas_[next].path.starts_with(group)) ++next;
      pickle_.text(group.substr(prefix, slash - prefix)).op('}').op('(');  // EMPTY_DICT, MARK
      put_items(i, next, slash + 1);
      pickle_.op('u');  // SETITEMS
      i = next;
    }
  }

 private:
  PickleText& pickle_;
  const std::vector<TensorMeta>& metas_;
};

std::vector<std::uint8_t> pickle_of(const std::vector<TensorMeta>& metas,
                                    const std::map<std::string, std::string>& attributes) {
  for (const TensorMeta& meta : metas) {
    const std::string key = meta.path.substr(0, meta.path.find('/'));
    if (attributes.contains(key))
      fail(ErrorCode::bad_input, "{}: an attribute has the same name in a file of PyTorch", meta.path);
  }
  PickleText pickle;
  pickle.op('}').op('(');
  Dicts(pickle, metas).put_items(0, metas.size(), 0);
  for (const auto& [name, value] : attributes) pickle.text(name).text(value);
  pickle.op('u');
  return pickle.take();
}

void add_text(ZipImage& zip, const char* name, std::string_view text) {
  zip.add(root + name, {text.begin(), text.end()});
}

}  // namespace

Image torch_image(const std::vector<TensorMeta>& metas,
                  const std::map<std::string, std::string>& attributes) {
  ZipImage zip;
  zip.add(root + "data.pkl", pickle_of(metas, attributes));
  add_text(zip, ".format_version", "1");
  add_text(zip, ".storage_alignment", "64");
  add_text(zip, "byteorder", "little");
  for (std::size_t i = 0; i < metas.size(); ++i)
    zip.add_tensor(root + "data/" + std::to_string(i), {}, metas[i].path, metas[i].bytes());
  add_text(zip, "version", "3\n");
  return zip.finish();
}

}  // namespace bitrift::ckpt
