// Plans an injection that the last bytes of the input describe into the file that the others are, applies it
// to a copy, and takes it back: only planned elements may differ in between, and nothing afterwards.
#include <algorithm>
#include <map>
#include <set>

#include <fuzzer/FuzzedDataProvider.h>
#include <spdlog/spdlog.h>

#include "fuzz/harness.h"
#include "h5map/filter/codec.h"
#include "h5map/h5_file.h"
#include "inject/draw/fault_plan.h"
#include "inject/write/apply.h"
#include "inject/write/undo_journal.h"

namespace bitrift::fuzz {
namespace {

using Texts = std::vector<std::string>;

constexpr std::uint64_t most_population = std::uint64_t{1} << 22;  // what a rate is drawn from
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 18;

std::string pick(FuzzedDataProvider& input, const Texts& texts) {
  return texts[input.ConsumeIntegralInRange<std::size_t>(0, texts.size() - 1)];
}

template <NamedEnum E>
E pick_named(FuzzedDataProvider& input) {
  return static_cast<E>(input.ConsumeIntegralInRange<std::size_t>(0, names_of(E{}).words.size() - 1));
}

/// All zeros give one flip on the plane value.
record::FaultModel model_from(FuzzedDataProvider& input) {
  record::FaultModel model;
  model.what = pick_named<record::FaultKind>(input);
  model.plane = parse_named<record::Plane>(pick(input, {"value", "value", "storage", "metadata"}));
  model.measure = pick_named<record::Measure>(input);
  model.bits = pick(input, {"any", "sign", "exponent", "mantissa", "exponent_msb", "0-3", "0,5"});
  const std::string glob = pick(input, {"", "**", "**@**", "*", "**:*", "@*", "**/*"});
  if (!glob.empty()) model.tensors.push_back(glob);
  if (const auto role = pick(input, {"", "", "weight", "unknown"}); !role.empty())
    model.roles.push_back(role);
  if (const auto at = pick(input, {"", "", "first", "last", "1"}); !at.empty()) model.layers.push_back(at);
  const std::string format = pick(input, {"", "", "", "bfloat16", "float8_e4m3fn", "int32", "bool"});
  if (!format.empty()) model.as["**"] = format;
  model.allow_nan = !input.ConsumeBool();
  model.keep_sign = input.ConsumeBool();
  const auto rate = static_cast<double>(input.ConsumeIntegralInRange<unsigned>(0, 100)) / 400 + 0.01;
  const unsigned how_many = input.ConsumeIntegralInRange<unsigned>(0, 9);
  if (how_many == 8) model.fraction = rate;
  if (how_many == 9) model.ber = rate;
  if (how_many < 8) model.count = 1 + how_many * how_many;
  if (model.what == record::FaultKind::burst) model.length = input.ConsumeIntegralInRange<unsigned>(1, 64);
  if (model.what == record::FaultKind::upset) {
    model.ecc = pick_named<record::Ecc>(input);
    if (input.ConsumeBool()) model.upset_mode = pick_named<record::UpsetMode>(input);
    if (input.ConsumeBool()) {  // what most models say, upsets refuse
      model.plane = record::Plane::value;
      model.measure = record::Measure::bit;
      model.bits = "any";
      model.allow_nan = true;
      model.keep_sign = false;
    }
  }
  if (model.what == record::FaultKind::mask)
    model.mask = pick(input, {"1", "101", "0xff", "0x8000000000000001"});
  if (model.what == record::FaultKind::mask && input.ConsumeBool()) model.mask_at = record::MaskPlace::random;
  if (model.what == record::FaultKind::scale) model.factor = input.ConsumeIntegralInRange<int>(-3, 3);
  if (model.what == record::FaultKind::set)
    model.value = pick(input, {"0", "1", "-1.5", "nan", "1e300", "18446744073709551615"});
  model.seed = input.ConsumeIntegral<std::uint8_t>();
  return model;
}

/// Bytes of every tensor that can be read at once, by its name.
using Snapshot = std::map<std::string, Bytes>;

void add_values(const ckpt::Reader& reader, const std::vector<ckpt::TensorInfo>& tensors, Snapshot& all) {
  for (const ckpt::TensorInfo& tensor : tensors) {
    if (!tensor.plain || tensor.element_bytes > most_bytes) continue;
    if (tensor.element_bytes == 0 || tensor.elements() > most_bytes / tensor.element_bytes) continue;
    Bytes bytes(tensor.elements() * tensor.element_bytes);
    const bool read = answered([&] { reader.read(tensor, bytes.data(), bytes.size()); });
    if (read) all[tensor.path] = std::move(bytes);
  }
}

Snapshot snapshot(const ckpt::Reader& reader) {
  Snapshot all;
  add_values(reader, reader.tensors(), all);
  answered([&] { add_values(reader, reader.attribute_tensors(), all); });
  return all;
}

/// Every fault is there, also under the aliases of its tensor, and no other number changed. What is not a
/// number (a whole compound) has no say.
void expect_only(const std::vector<record::AppliedFault>& faults, const ckpt::Reader& before,
                 const ckpt::Reader& after) {
  Snapshot wanted = snapshot(before);
  for (const record::AppliedFault& fault : faults) {
    const auto found = wanted.find(fault.tensor);
    if (found == wanted.end()) continue;
    NumberFormat format = number_format(fault.dtype).value();
    format.order = ByteOrder::little;
    std::uint8_t* const bytes = found->second.data() + fault.element * format.bytes;
    expect(load_pattern(format, bytes) == fault.old_pattern,
           fault.tensor + ": another old value was planned");
    store_pattern(format, fault.new_pattern, bytes);
  }
  const Snapshot got = snapshot(after);
  for (const auto& [path, bytes] : wanted) {
    const ckpt::TensorInfo* const tensor = before.find(path);
    if (!tensor->format || tensor->role == "checksum") continue;
    const auto found = got.find(path);
    expect(found != got.end(), path + ": cannot be read any more");
    const auto own = tensor->alias_of.empty() ? wanted.end() : wanted.find(tensor->alias_of);
    expect(found->second == (own == wanted.end() ? bytes : own->second),
           path + ": other values than planned");
  }
}

void expect_taken_back(const ScratchFile& file, std::span<const std::uint8_t> original) {
  const Bytes now = file.read();
  expect(std::equal(now.begin(), now.end(), original.begin(), original.end()),
         "the file is not as it was before");
}

bool only_our_filters(const ckpt::Reader& reader) {
  if (reader.container().hdf5() == nullptr) return true;
  const auto& datasets = reader.container().hdf5()->datasets();
  return std::all_of(datasets.begin(), datasets.end(), [](const h5map::Dataset& dataset) {
    return h5map::codec_knows(dataset.layout.filters, 0);
  });
}

void inject_and_undo(const record::FaultModel& model, std::span<const std::uint8_t> original) {
  static const ScratchFile base("base.h5"), copy("copy.h5");
  base.write(original);
  const ckpt::Reader reader(base.path());
  // libhdf5 would need a process for every dataset.
  if (!only_our_filters(reader)) return;
  if (model.plane != record::Plane::metadata && inject::population_of(reader, model).bits() > most_population)
    return;
  const record::FaultList faults = inject::plan(reader, model).list;
  copy.write(original);
  if (!answered([&] { inject::inject_in_place(copy.path(), faults); })) {
    return expect_taken_back(copy, original);
  }
  if (model.plane != record::Plane::metadata) {
    must([&] { expect_only(faults.expanded(), reader, ckpt::Reader(copy.path())); },
         "the altered file is refused");
  }
  if (std::filesystem::exists(inject::undo_path(copy.path()))) {
    must([&] { (void)inject::undo(copy.path()); }, "what was done cannot be undone");
  }
  expect_taken_back(copy, original);
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  spdlog::set_level(spdlog::level::off);
  FuzzedDataProvider input(data, size);  // takes numbers from the end
  const auto model = model_from(input);
  const Bytes file = input.ConsumeRemainingBytes<std::uint8_t>();
  answered([&] { inject_and_undo(model, file); });
  return 0;
}
