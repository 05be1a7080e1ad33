#include "archive/pickle/pickle.h"

#include <charconv>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "core/byte_cursor.h"
#include "core/error.h"

namespace bitrift::archive {
namespace {

constexpr std::size_t most_values = std::size_t{32} << 20U;  // of 64 bytes each
constexpr PickleId mark = ~PickleId{0};                      // on the stack

}  // namespace

/// Opcodes as in Python's pickletools.
class PickleMachine {
 public:
  PickleMachine(std::span<const std::uint8_t> bytes, const std::string& where, Pickle& pickle)
      : where_(where), cursor_(bytes, where, "the pickle"), pickle_(pickle) {}

  void run() {
    for (;;) {
      const std::uint8_t opcode = cursor_.u8();
      if (opcode == '.') break;
      if (!constant(opcode) && !container(opcode) && !memory(opcode) && !call(opcode)) {
        if (opcode == 'P') {
          fail(ErrorCode::unsupported,
               "{}: is a pickle of protocol 0, from which PyTorch itself loads no tensors; save it with "
               "protocol 2",
               where_);
        }
        fail(ErrorCode::unsupported, "{}: opcode {:#04x} at byte {} of the pickle is none that bitrift reads",
             where_, opcode, cursor_.position() - 1);
      }
    }
    pickle_.root_ = pop();
    pickle_.bytes_ = cursor_.position();
  }

 private:
  [[noreturn]] void damaged(const char* what) const {
    fail(ErrorCode::bad_file, "{}: the pickle is damaged at byte {}: {}", where_, cursor_.position(), what);
  }

  PickleValue& make(PickleKind kind) {
    if (pickle_.values_.size() == most_values) {
      fail(ErrorCode::unsupported, "{}: the pickle has more than {} values", where_, most_values);
    }
    stack_.push_back(static_cast<PickleId>(pickle_.values_.size()));
    pickle_.values_.emplace_back();
    pickle_.values_.back().kind = kind;
    return pickle_.values_.back();
  }
  PickleId pop() {
    if (stack_.empty() || stack_.back() == mark) damaged("a value is missing");
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  /// Removes the values above the last mark, and the mark.
  std::vector<PickleId> pop_to_mark() {
    std::size_t first = stack_.size();
    while (first > 0 && stack_[first - 1] != mark) --first;
    if (first == 0) damaged("a mark is missing");
    std::vector<PickleId> items(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first - 1);
    return items;
  }
  std::string_view chars(std::uint64_t count) {
    const auto piece = cursor_.take(count);
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }

  void integer(std::int64_t value) { make(PickleKind::integer).integer = value; }
  /// Little-endian, two's complement.
  void long_integer(std::uint64_t bytes) {
    const auto digits = cursor_.take(bytes);
    if (bytes > 8) {
      make(PickleKind::long_integer);
      return;
    }
    std::uint64_t value = bytes > 0 && (digits.back() & 0x80U) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) value = value << 8U | digits[i];
    integer(static_cast<std::int64_t>(value));
  }
  void piece(PickleKind kind, std::uint64_t bytes) {
    const std::string_view text = chars(bytes);
    make(kind).text = text;
  }
  void truth(bool value) { make(PickleKind::truth).integer = value ? 1 : 0; }

  bool constant(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (const std::uint8_t version = cursor_.u8(); version < 2 || version > 5) {
          fail(ErrorCode::unsupported, "{}: is a pickle of protocol {}; 1 to 5 are read", where_, version);
        }
        return true;
      case 0x95:  // FRAME
        return cursor_.skip(8), true;
      case 'N':
        return make(PickleKind::none), true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return truth(opcode == 0x88), true;
      case 'J':  // BININT
        return integer(static_cast<std::int32_t>(cursor_.u32())), true;
      case 'K':  // BININT1
        return integer(cursor_.u8()), true;
      case 'M':  // BININT2
        return integer(cursor_.u16()), true;
      case 0x8a:  // LONG1
        return long_integer(cursor_.u8()), true;
      case 0x8b:  // LONG4
        return long_integer(cursor_.u32()), true;
      case 'G':  // BINFLOAT
        return cursor_.skip(8), make(PickleKind::number), true;
      default:
        return texts(opcode) || lines(opcode);
    }
  }

  /// A line of decimal digits. "00" and "01" are truth values.
  void integer_line() {
    std::string_view text = line();
    if (text == "00" || text == "01") return truth(text == "01");
    if (text.ends_with('L')) text.remove_suffix(1);
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (rest != text.data() + text.size() || text.empty()) damaged("a number is expected");
    if (error == std::errc{}) return integer(value);
    make(PickleKind::long_integer);
  }

  /// The opcodes of protocol 0, which write values as lines of text. Escapes in texts are kept as they are.
  bool lines(std::uint8_t opcode) {
    switch (opcode) {
      case 'I':  // INT
      case 'L':  // LONG
        return integer_line(), true;
      case 'F':  // FLOAT
        return (void)line(), make(PickleKind::number), true;
      case 'S':    // STRING
      case 'V': {  // UNICODE
        std::string_view text = line();
        if (opcode == 'S' && text.size() > 1) text = text.substr(1, text.size() - 2);  // between quotes
        make(PickleKind::text).text = text;
        return true;
      }
      default:
        return false;
    }
  }

  bool texts(std::uint8_t opcode) {
    switch (opcode) {
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
        return piece(PickleKind::text, cursor_.u8()), true;
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
        return piece(PickleKind::text, cursor_.u32()), true;
      case 0x8d:  // BINUNICODE8
        return piece(PickleKind::text, cursor_.u64()), true;
      case 'C':  // SHORT_BINBYTES
        return piece(PickleKind::bytes, cursor_.u8()), true;
      case 'B':  // BINBYTES
        return piece(PickleKind::bytes, cursor_.u32()), true;
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return piece(PickleKind::bytes, cursor_.u64()), true;
      default:
        return false;
    }
  }

  void pack(PickleKind kind, std::vector<PickleId> items) { make(kind).items = std::move(items); }
  void tuple(unsigned count) {
    std::vector<PickleId> items(count);
    for (unsigned i = count; i-- > 0;) items[i] = pop();
    pack(PickleKind::tuple, std::move(items));
  }
  /// The value on the stack to which items are added.
  PickleValue& container_on_top() {
    const PickleId id = pop();
    stack_.push_back(id);
    return pickle_.values_[id];
  }
  /// Items are added to a list or set, or to an object that is built like one, such as a deque.
  void add_elements(const std::vector<PickleId>& items, PickleKind kind) {
    PickleValue& value = container_on_top();
    if (value.kind != kind && value.kind != PickleKind::object) damaged("a container is missing");
    for (const PickleId item : items) {
      if (value.kind == PickleKind::object) value.items.push_back(element_key);
      value.items.push_back(item);
    }
  }
  void add_pairs(const std::vector<PickleId>& items) {
    if (items.size() % 2 != 0) damaged("a value is missing");
    PickleValue& value = container_on_top();
    if (value.kind != PickleKind::dict && value.kind != PickleKind::object) damaged("a container is missing");
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  bool container(std::uint8_t opcode) {
    switch (opcode) {
      case '(':
        return stack_.push_back(mark), true;
      case '0': {  // POP
        if (stack_.empty()) damaged("a value is missing");
        return stack_.pop_back(), true;
      }
      case '1':  // POP_MARK
        return pop_to_mark(), true;
      case '2': {  // DUP
        const PickleId id = pop();
        return stack_.push_back(id), stack_.push_back(id), true;
      }
      case ')':
        return make(PickleKind::tuple), true;
      case 't':
        return pack(PickleKind::tuple, pop_to_mark()), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return tuple(opcode - 0x84U), true;
      case ']':
        return make(PickleKind::list), true;
      case 'l':
        return pack(PickleKind::list, pop_to_mark()), true;
      case 0x8f:
        return make(PickleKind::set), true;
      case 0x91:  // FROZENSET
        return pack(PickleKind::set, pop_to_mark()), true;
      case '}':
        return make(PickleKind::dict), true;
      default:
        return filling(opcode);
    }
  }

  bool filling(std::uint8_t opcode) {
    switch (opcode) {
      case 'a': {
        const PickleId item = pop();
        return add_elements({item}, PickleKind::list), true;
      }
      case 'e':
        return add_elements(pop_to_mark(), PickleKind::list), true;
      case 0x90:  // ADDITEMS
        return add_elements(pop_to_mark(), PickleKind::set), true;
      case 's': {
        const PickleId value = pop();
        const PickleId key = pop();
        return add_pairs({key, value}), true;
      }
      case 'u':
        return add_pairs(pop_to_mark()), true;
      case 'd': {
        std::vector<PickleId> items = pop_to_mark();
        if (items.size() % 2 != 0) damaged("a value is missing");
        return pack(PickleKind::dict, std::move(items)), true;
      }
      default:
        return false;
    }
  }

  void keep(std::uint32_t place) {
    if (stack_.empty() || stack_.back() == mark) damaged("a value is missing");
    memo_[place] = stack_.back();
  }
  void recall(std::uint32_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) damaged("a value was never kept");
    stack_.push_back(found->second);
  }

  std::uint32_t place_line() {
    const std::string_view text = line();
    std::uint32_t place = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), place);
    if (error != std::errc{} || rest != text.data() + text.size()) damaged("a number is expected");
    return place;
  }

  bool memory(std::uint8_t opcode) {
    switch (opcode) {
      case 'q':
        return keep(cursor_.u8()), true;
      case 'r':
        return keep(cursor_.u32()), true;
      case 0x94:  // MEMOIZE
        return keep(static_cast<std::uint32_t>(memo_.size())), true;
      case 'p':  // PUT
        return keep(place_line()), true;
      case 'g':  // GET
        return recall(place_line()), true;
      case 'h':
        return recall(cursor_.u8()), true;
      case 'j':
        return recall(cursor_.u32()), true;
      default:
        return false;
    }
  }

  /// Reads the bytes up to the end of a line.
  std::string_view line() {
    std::string_view text = chars(1);
    while (text.back() != '\n') text = {text.data(), text.size() + chars(1).size()};
    return text.substr(0, text.size() - 1);
  }
  void name_global(std::string_view module, std::string_view name) {
    pickle_.names_.push_back(fmt::format("{}.{}", module, name));
    make(PickleKind::global).text = pickle_.names_.back();
  }

  void make_object(PickleId callable, PickleId arguments) {
    PickleValue& object = make(PickleKind::object);
    object.callable = callable;
    object.arguments = arguments;
  }
  /// Sets the state of an object. Any other value that takes a state, such as a dict, ignores it.
  void give_state(PickleId state) {
    PickleValue& value = container_on_top();
    if (value.kind != PickleKind::object) return;
    value.items.push_back(state_key);
    value.items.push_back(state);
  }
  bool call(std::uint8_t opcode) {
    switch (opcode) {
      case 'c': {  // GLOBAL
        const std::string_view module = line();
        return name_global(module, line()), true;
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleValue& name = pickle_.values_[pop()];
        const PickleValue& module = pickle_.values_[pop()];
        if (name.kind != PickleKind::text || module.kind != PickleKind::text) damaged("a name is missing");
        return name_global(module.text, name.text), true;
      }
      case 'R':     // REDUCE
      case 0x81: {  // NEWOBJ
        const PickleId arguments = pop();
        return make_object(pop(), arguments), true;
      }
      case 0x92: {  // NEWOBJ_EX: the dict of named arguments counts as state
        const PickleId named = pop();
        const PickleId arguments = pop();
        make_object(pop(), arguments);
        return give_state(named), true;
      }
      case 'i': {  // INST
        const std::string_view module = line();
        name_global(module, line());
        const PickleId callable = pop();
        pack(PickleKind::tuple, pop_to_mark());
        return make_object(callable, pop()), true;
      }
      case 'o': {  // OBJ
        std::vector<PickleId> items = pop_to_mark();
        if (items.empty()) damaged("a value is missing");
        const PickleId callable = items.front();
        items.erase(items.begin());
        pack(PickleKind::tuple, std::move(items));
        return make_object(callable, pop()), true;
      }
      case 'b':  // BUILD
        return give_state(pop()), true;
      case 'Q': {  // BINPERSID
        const PickleId identifier = pop();
        make(PickleKind::persistent).arguments = identifier;
        return true;
      }
      default:
        return false;
    }
  }

  const std::string& where_;
  ByteCursor cursor_;
  Pickle& pickle_;
  std::vector<PickleId> stack_;
  std::unordered_map<std::uint32_t, PickleId> memo_;
};

Pickle::Pickle(std::span<const std::uint8_t> bytes, const std::string& where) {
  if (bytes.size() > most_pickle_bytes) {
    fail(ErrorCode::unsupported, "{}: the pickle has {} bytes; at most {} are read", where, bytes.size(),
         most_pickle_bytes);
  }
  PickleMachine(bytes, where, *this).run();
}

}  // namespace bitrift::archive
