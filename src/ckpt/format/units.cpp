#include "ckpt/format/units.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace bitrift::ckpt {
namespace {

using h5map::Datatype;
using h5map::TypeClass;

constexpr unsigned deepest = 32;
constexpr std::size_t most_units = 4096;

struct TooMany {};

bool is_complex(const Datatype& type) {
  if (type.type_class == TypeClass::complex) return type.base->number().has_value();
  if (type.type_class != TypeClass::compound || type.members.size() != 2) return false;
  const auto& [real, imaginary] = std::pair(type.members[0], type.members[1]);
  const auto format = real.type->number();
  return real.name == "r" && imaginary.name == "i" && format && format->kind == NumberKind::floating &&
         imaginary.type->number() == format;
}

class Taker {
 public:
  Taker(const std::string& path, const std::vector<std::uint64_t>& shape, std::uint64_t row_bytes,
        std::uint64_t room)
      : path_(path), shape_(shape), row_bytes_(row_bytes), room_(room) {}

  std::vector<TensorInfo> units;
  [[nodiscard]] std::uint64_t room() const noexcept { return room_; }

  /// The arrays that contain a part: their dimensions and steps.
  struct Arrays {
    std::vector<std::uint64_t> dimensions;
    std::vector<TensorInfo::Step> steps;
  };

  // `member`: "" for the element itself.
  void take(const Datatype& type, std::uint64_t first_byte, const std::string& member, unsigned depth,
            const Arrays& arrays = {}) {
    if (depth > deepest || units.size() > most_units) throw TooMany{};
    if (is_complex(type)) {
      const bool native = type.type_class == TypeClass::complex;
      const Datatype& part = native ? *type.base : *type.members[0].type;
      const std::uint64_t imaginary = native ? part.bytes : type.members[1].offset;
      add(part, arrays, first_byte + (native ? 0 : type.members[0].offset), joined(member, "real"));
      add(part, arrays, first_byte + imaginary, joined(member, "imag"));
    } else if (type.type_class == TypeClass::compound) {
      for (const h5map::TypeMember& one : type.members) {
        take(*one.type, first_byte + one.offset, joined(member, one.name), depth + 1, arrays);
      }
    } else if (type.type_class == TypeClass::array) {
      Arrays deeper = arrays;
      deeper.dimensions.insert(deeper.dimensions.end(), type.dimensions.begin(), type.dimensions.end());
      deeper.steps.push_back({type.bytes / type.base->bytes, type.base->bytes});
      take(*type.base, first_byte, member, depth + 1, deeper);
    } else {
      add(type, arrays, first_byte, member);
    }
  }

 private:
  static std::string joined(const std::string& member, const std::string& name) {
    return member.empty() ? name : member + "." + name;
  }

  void add(const Datatype& type, const Arrays& arrays, std::uint64_t first_byte, const std::string& member) {
    const std::size_t dimensions = arrays.dimensions.size();
    const std::uint64_t bytes = sizeof(TensorInfo) + 2 * path_.size() + member.size() + 24 * dimensions;
    const bool counts = !member.empty() || dimensions > 32;  // arrays in arrays
    if (counts && bytes > room_) throw TooMany{};
    if (counts) room_ -= bytes;
    TensorInfo unit;
    unit.path = member.empty() ? path_ : path_ + ":" + member;
    if (!member.empty()) unit.holder = path_;
    unit.format = type.number();
    unit.dtype = type.name();
    unit.plain = type.plain();
    unit.order = type.is_big_endian() ? ByteOrder::big : ByteOrder::little;
    unit.element_bytes = type.bytes;
    if (type.order == h5map::StoredOrder::vax) unit.refusal = "its bytes are in VAX order";
    unit.shape = shape_;
    unit.shape.insert(unit.shape.end(), arrays.dimensions.begin(), arrays.dimensions.end());
    unit.first_byte = first_byte;
    unit.row_bytes = row_bytes_;
    unit.steps = arrays.steps;
    for (const TensorInfo::Step& step : unit.steps) unit.per_row *= step.count;
    units.push_back(std::move(unit));
  }

  const std::string& path_;
  const std::vector<std::uint64_t>& shape_;
  std::uint64_t row_bytes_;
  std::uint64_t room_;
};

}  // namespace

std::uint64_t room_beside(std::uint64_t file_bytes) noexcept {
  return (std::uint64_t{64} << 20U) + 8 * std::min(file_bytes, std::uint64_t{16} << 20U);
}

std::vector<TensorInfo> units_of(const h5map::Datatype& type, const std::string& path,
                                 const std::vector<std::uint64_t>& shape, std::uint64_t& room) {
  Taker taker(path, shape, type.bytes, room);
  try {
    taker.take(type, 0, "", 0);
  } catch (const TooMany&) {
    room = taker.room();  // memory that was used in vain counts too, which limits the time
    TensorInfo whole;
    whole.path = path;
    whole.dtype = type.name();
    whole.element_bytes = whole.row_bytes = type.bytes;
    whole.shape = shape;
    return {whole};
  }
  room = taker.room();
  return std::move(taker.units);
}

void make_unique(std::vector<TensorInfo>& tensors, const std::function<bool(const std::string&)>& taken) {
  std::unordered_map<std::string, std::uint64_t> met;  // and the number of others with this name
  met.reserve(tensors.size());
  for (TensorInfo& tensor : tensors) {
    const std::string name = tensor.path;
    while (met.contains(tensor.path) || taken(tensor.path)) {
      const std::uint64_t next = ++met[name];
      tensor.path = name + (next == 1 ? ":" : fmt::format(":{}", next));
    }
    met.try_emplace(tensor.path, 0);
  }
}

}  // namespace bitrift::ckpt
