// A pickle of Python as a tree of values. Nothing in it is executed.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift::archive {

enum class PickleKind : std::uint8_t {
  none,
  truth,
  integer,
  long_integer,  ///< of more than 64 bits; its value is not kept
  number,
  text,
  bytes,
  tuple,
  list,
  dict,
  set,
  global,     ///< a name of Python, "collections.OrderedDict"
  object,     ///< the result that a global would return for its arguments, if it were called
  persistent  ///< an object that the program that loads the pickle keeps elsewhere
};

/// The most that one pickle may have. A file with 500,000 tensors has a pickle of about 70 MB; a distributed
/// checkpoint, one of about 130 MB.
inline constexpr std::uint64_t most_pickle_bytes = std::uint64_t{256} << 20U;

/// The numbers of values, in the order in which the pickle creates them.
using PickleId = std::uint32_t;

/// Keys among the items of an object that no pickle writes: the key of an appended element, and that of the
/// state given to the object.
constexpr PickleId element_key = ~PickleId{0} - 1, state_key = ~PickleId{0} - 2;

struct PickleValue {
  PickleKind kind = PickleKind::none;
  PickleId callable = 0;        ///< object
  PickleId arguments = 0;       ///< the object; for persistent ones, its identifier
  std::int64_t integer = 0;     ///< integer, truth
  std::string_view text;        ///< text, bytes, global
  std::vector<PickleId> items;  ///< the items of a tuple, list or set; of a dict or object key, value, key,
                                ///< value, ...
};

/// Reads a pickle of protocol 1 to 5. All opcodes are supported, except those that need a registry of
/// extensions or buffers from outside the pickle. A call becomes a value of the kind `object`. Values may
/// refer to each other in cycles.
class Pickle {
 public:
  /// The bytes must outlive it. `where` names file and pickle in messages. Throws Error(bad_file) for damage,
  /// Error(unsupported) for other opcodes and for pickles of more than most_pickle_bytes or 32 million
  /// values.
  Pickle(std::span<const std::uint8_t> bytes, const std::string& where);

  [[nodiscard]] const PickleValue& operator[](PickleId id) const { return values_.at(id); }
  [[nodiscard]] PickleId root() const noexcept { return root_; }
  [[nodiscard]] const std::vector<PickleValue>& values() const noexcept { return values_; }
  /// Its length; other bytes may follow it.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  friend class PickleMachine;
  std::vector<PickleValue> values_;
  std::deque<std::string> names_;  // of globals
  PickleId root_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace bitrift::archive
