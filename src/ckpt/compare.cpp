#include "ckpt/compare.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <span>

#include <fmt/ranges.h>

#include "ckpt/reader.h"
#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kChunkedPieceBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kMostPieceBytes = std::uint64_t{1} << 30;

std::string describe(const TensorInfo& tensor) {
  return fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

TensorDifference difference(const TensorInfo& tensor, const char* kind, std::string detail = "") {
  return {.path = tensor.path,
          .kind = kind,
          .detail = std::move(detail),
          .role = tensor.role,
          .dtype = tensor.dtype};
}

bool same_type(const TensorInfo& a, const TensorInfo& b) {
  if (a.format.has_value() != b.format.has_value()) return false;
  if (!a.format) {
    // References to data elsewhere are as long as the file's addresses.
    return a.dtype == b.dtype && (a.plain ? a.element_bytes == b.element_bytes : !b.plain);
  }
  NumberFormat in_same_order = *b.format;
  in_same_order.order = a.format->order;
  return *a.format == in_same_order;
}

/// Reads a tensor in pieces; pieces of chunked storage have whole chunks.
class Pieces {
 public:
  Pieces(const Reader& reader, const TensorInfo& tensor)
      : reader_(reader),
        tensor_(tensor),
        step_(std::max<std::uint64_t>(kPieceBytes / tensor.element_bytes, 1)) {
    const std::uint64_t stride = reader.values(tensor).stride();
    if (!tensor.whole() || stride == 1) return;
    if (stride > kMostPieceBytes) {
      fail(ErrorCode::unsupported, "its chunks can only be read {} bytes at once", stride);
    }
    // The index is searched once for each piece.
    step_ = std::max<std::uint64_t>(kChunkedPieceBytes / stride, 1) * stride / tensor.element_bytes;
  }

  /// The elements from `at` on that are in memory or read now; at least one, if there is one.
  std::span<const std::uint8_t> from(std::uint64_t at) {
    const std::uint64_t first = at / step_ * step_;
    if (first != first_ || held_.empty()) {
      held_.resize(std::min(step_, tensor_.elements() - first) * tensor_.element_bytes);
      reader_.read_elements(tensor_, first, held_.size() / tensor_.element_bytes, held_.data());
      first_ = first;
    }
    return std::span(held_).subspan((at - first) * tensor_.element_bytes);
  }

 private:
  const Reader& reader_;
  const TensorInfo& tensor_;
  std::uint64_t step_;  // elements
  std::uint64_t first_ = 0;
  std::vector<std::uint8_t> held_;
};

/// Adds the differences between `count` elements to the result.
void compare_elements(const std::uint8_t* a, const std::uint8_t* b, std::uint64_t first, std::uint64_t count,
                      std::size_t width, bool is_number, TensorDifference& result) {
  if (std::memcmp(a, b, count * width) == 0) return;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint8_t* const x = a + i * width;
    const std::uint8_t* const y = b + i * width;
    if (std::memcmp(x, y, width) == 0) continue;
    if (result.elements++ == 0) {
      result.first_element = first + i;
      for (std::size_t byte = 0; is_number && byte < width; ++byte) {
        result.first_old |= static_cast<std::uint64_t>(x[byte]) << (8 * byte);
        result.first_new |= static_cast<std::uint64_t>(y[byte]) << (8 * byte);
      }
    }
    for (std::size_t byte = 0; byte < width; ++byte) {
      result.bits += static_cast<std::uint64_t>(std::popcount(static_cast<std::uint8_t>(x[byte] ^ y[byte])));
    }
  }
}

std::optional<TensorDifference> compare_values(const Reader& first, const TensorInfo& a, const Reader& second,
                                               const TensorInfo& b) {
  TensorDifference result = difference(a, "values");
  Pieces pieces_a(first, a);
  Pieces pieces_b(second, b);
  const std::uint64_t elements = a.elements();
  for (std::uint64_t at = 0; at < elements;) {
    const auto x = pieces_a.from(at);
    const auto y = pieces_b.from(at);
    const std::uint64_t count = std::min(x.size(), y.size()) / a.element_bytes;
    compare_elements(x.data(), y.data(), at, count, a.element_bytes, a.format.has_value(), result);
    at += count;
  }
  if (result.elements == 0) return std::nullopt;
  return result;
}

std::optional<TensorDifference> compare_tensor(const Reader& first, const TensorInfo& a, const Reader& second,
                                               const TensorInfo& b) {
  if (const auto text = first.text_of(a), other = second.text_of(b); text && other) {
    if (*text == *other) return std::nullopt;
    TensorDifference result = difference(a, "values", "texts differ");
    result.elements = 1;
    return result;
  }
  const std::string both = describe(a) + " against " + describe(b);
  if (!same_type(a, b)) return difference(a, "dtype", both);
  if (a.shape != b.shape) return difference(a, "shape", both);
  if (!a.plain) return difference(a, "not_compared", "type " + a.dtype);
  try {
    return compare_values(first, a, second, b);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io || error.code() == ErrorCode::internal) throw;
    return difference(a, "not_compared", error.what());
  }
}

void compare_attributes(const Reader& first, const Reader& second, std::vector<TensorDifference>& result) {
  std::set<std::string> names;
  for (const Reader* reader : {&first, &second}) {
    for (const auto& [name, text] : reader->attributes()) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto a = first.attribute(name);
    const auto b = second.attribute(name);
    if (a == b) continue;
    TensorDifference one{
        .path = "@" + name, .kind = "values", .detail = "texts differ", .role = "", .dtype = "string"};
    if (!a) one.kind = "only_in_second";
    if (!b) one.kind = "only_in_first";
    if (!a || !b) one.detail = "";
    one.elements = a && b ? 1 : 0;
    result.push_back(std::move(one));
  }
}

void compare_lists(const Reader& a, const std::vector<TensorInfo>& all_a, const Reader& b,
                   const std::vector<TensorInfo>& all_b, std::vector<TensorDifference>& result) {
  const auto counts = [](const Reader& reader, const TensorInfo& tensor) {
    // Texts of the root group are compared with all their other properties.
    return !(tensor.attribute && tensor.path.starts_with('@') && reader.text_of(tensor));
  };
  for (const TensorInfo& tensor : all_a) {
    if (!counts(a, tensor)) continue;
    const TensorInfo* const other = b.find(tensor.path);
    if (other == nullptr) {
      result.push_back(difference(tensor, "only_in_first"));
    } else if (auto found = compare_tensor(a, tensor, b, *other)) {
      result.push_back(std::move(*found));
    }
  }
  for (const TensorInfo& tensor : all_b) {
    if (counts(b, tensor) && a.find(tensor.path) == nullptr) {
      result.push_back(difference(tensor, "only_in_second"));
    }
  }
}

}  // namespace

std::vector<TensorDifference> compare(const std::filesystem::path& first,
                                      const std::filesystem::path& second) {
  const Reader a(first);
  const Reader b(second);
  std::vector<TensorDifference> result;
  compare_attributes(a, b, result);
  compare_lists(a, a.tensors(), b, b.tensors(), result);
  compare_lists(a, a.attribute_tensors(), b, b.attribute_tensors(), result);
  std::sort(result.begin(), result.end(), [](const auto& x, const auto& y) { return x.path < y.path; });
  const auto open = [](const TensorDifference& one) { return one.kind == "not_compared"; };
  // Equal files hold equal tensors of whatever type.
  if (!result.empty() && std::all_of(result.begin(), result.end(), open) &&
      digest_of(first) == digest_of(second))
    result.clear();
  return result;
}

}  // namespace bitrift::ckpt
