// A CUDA device that is made of the host's memory, for machines without a card: LibTorch without CUDA leaves
// its key free, and this library takes it. Every is_cuda() of the programs is true for its tensors, every
// operation is calculated by the CPU's kernels, so the bits are those of the CPU, and what a card forbids is
// forbidden here:
//
// - The host must not touch device memory. BITRIFT_FAKE_WORK=now: that is a SIGSEGV.
// - Work is done later. BITRIFT_FAKE_WORK=later: MPI may read and write device memory, as one that
//   knows CUDA does, but sees what the last synchronization left; what the host writes while work waits is an
//   error.
// - Tensors of an operation are on one device; BITRIFT_FAKE_DEVICES is the number of them (default: 1).
// - New memory has no useful content (it is NaN in every floating-point format).
//
// Errors are planted with BITRIFT_FAKE_FORGET=copy:N (the Nth copy to the host is left out, and the host gets
// the device's address) and synchronization:N (the Nth call does nothing); N = 0 is all of them. At its end
// the process appends what it did to the file that BITRIFT_FAKE_LOG names, as one line of JSON.
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "device_memory.h"
#include "record.h"
#include "settings.h"

namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using fake_device::devices;
using fake_device::memory_of;
using fake_device::record;
constexpr auto cuda = c10::DeviceType::CUDA;

thread_local DeviceIndex current = 0;
thread_local int inside = 0;  // operations that the CPU calculates for this thread

struct Inside {
  Inside() { ++inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --inside; }
};

/// The random numbers of a device are not those of the host. The CPU's kernels draw them.
at::Generator& generator(DeviceIndex device) {
  static std::array<at::Generator, fake_device::most_devices> all = [] {
    std::array<at::Generator, fake_device::most_devices> made;
    for (at::Generator& one : made) one = at::detail::createCPUGenerator(c10::default_rng_seed_val);
    return made;
  }();
  return all.at(static_cast<std::size_t>(device));
}

void synchronize(DeviceIndex device) {
  if (fake_device::works_later()) memory_of(device).synchronize();
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t size) override {
    const Device device(cuda, current);
    if (size == 0) return {nullptr, nullptr, &release, device};
    void* const at = memory_of(current).allocate(size);
    return {at, at, &release, device};
  }
  static void release(void* address) {
    for (DeviceIndex i = 0; i < devices() && address != nullptr; ++i) {
      if (memory_of(i).holds(address)) return memory_of(i).release(address);
    }
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(memory_of(current).values(to, true), memory_of(current).values(from, false), size);
  }
};

Allocator allocator;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  [[nodiscard]] c10::DeviceType type() const override { return cuda; }
  [[nodiscard]] Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  [[nodiscard]] Device getDevice() const override { return {cuda, current}; }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() < devices(), "CUDA error: invalid device ordinal");
    if (device.index() >= 0) current = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0) current = device.index();
  }
  [[nodiscard]] c10::Stream getStream(Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device.has_index() ? device : getDevice());
  }
  [[nodiscard]] c10::Stream getDefaultStream(Device device) const override { return getStream(device); }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  void record(void** /*event*/, const c10::Stream& /*stream*/, DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  [[nodiscard]] bool queryEvent(void* /*event*/) const override { return true; }
  [[nodiscard]] DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(devices());
  }
  [[nodiscard]] bool queryStream(const c10::Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream.device_index()); }
  void synchronizeDevice(DeviceIndex device) const override { synchronize(device); }
};

Tensor make(std::size_t bytes, std::optional<at::ScalarType> type, std::optional<Device> device) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), bytes, &allocator, true),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::scalarTypeToTypeMeta(type.value_or(at::kFloat)));
}

Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
             std::optional<Device> device, std::optional<bool> pinned,
             std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const std::size_t size = c10::elementSize(type.value_or(at::kFloat));
  Tensor made = make(static_cast<std::size_t>(c10::multiply_integers(sizes)) * size, type, device);
  made.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (format && *format != at::MemoryFormat::Contiguous)
    made.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return made;
}

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> type,
                     std::optional<at::Layout> /*layout*/, std::optional<Device> device,
                     std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const std::size_t size = c10::elementSize(type.value_or(at::kFloat));
  Tensor made = make(at::detail::computeStorageNbytes(sizes, strides, size), type, device);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

/// A CPU tensor over a device tensor's values.
Tensor values_of(const Tensor& tensor, bool written) {
  void* const address = tensor.storage().mutable_data();
  if (address == nullptr) return at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  char* const values = memory_of(tensor.get_device()).values(address, written);
  return at::from_blob(values + tensor.storage_offset() * tensor.element_size(), tensor.sizes(),
                       tensor.strides(), at::TensorOptions().dtype(tensor.scalar_type()));
}

void note_use(const Tensor& tensor) { record().use(tensor.get_device()); }

void move_values(const Tensor& from, const Tensor& to) {
  const bool host_reads = to.is_cpu() && inside == 0;
  if (host_reads) synchronize(from.get_device());
  if (host_reads && record().to_host.forgets()) {
    // As if the program had taken the device's address: the pages of `to` become those.
    if (to.is_contiguous() && from.is_contiguous() && from.scalar_type() == to.scalar_type()) {
      to.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(
          c10::Storage::use_byte_size_t(), from.nbytes(),
          c10::DataPtr(
              static_cast<char*>(from.storage().mutable_data()) + from.storage_offset() * from.element_size(),
              Device(at::kCPU)),
          nullptr, false));
      to.unsafeGetTensorImpl()->set_storage_offset(0);
    }
    return;
  }
  if (from.is_cpu() && inside == 0) ++record().to_device;
  const at::NoGradGuard no_grad;
  const Tensor source = from.is_cuda() ? values_of(from, false) : from;
  Tensor target = to.is_cuda() ? values_of(to, true) : to;
  target.copy_(source);
}

Tensor& copy_(Tensor& self, const Tensor& from, bool /*non_blocking*/) {
  if (self.is_same(from)) return self;
  move_values(from, self);
  return self;
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool /*non_blocking*/) {
  move_values(from, to);
  return to;
}

const Tensor& resize_(const Tensor& self, c10::IntArrayRef sizes, std::optional<at::MemoryFormat> format) {
  const auto needed = static_cast<std::size_t>(c10::multiply_integers(sizes) * self.element_size());
  c10::StorageImpl* const storage = self.storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) {
    const c10::DeviceGuard guard(self.device());
    c10::DataPtr bigger = allocator.allocate(needed);
    if (storage->nbytes() > 0) allocator.copy_data(bigger.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(bigger));
    storage->set_nbytes(needed);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (format && *format != at::MemoryFormat::Preserve)
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) resize_(to, from.sizes(), std::nullopt);
  move_values(from, to);
  return to;
}

Tensor strided(const Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides,
               std::optional<std::int64_t> offset) {
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                         self.key_set(), self.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset.value_or(self.storage_offset()));
  return made;
}

Tensor view(const Tensor& self, c10::IntArrayRef sizes) {
  const auto inferred = at::infer_size_dv(sizes, self.numel());
  const std::vector<std::int64_t> shape(inferred.begin(), inferred.end());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), shape);
  TORCH_CHECK(strides, "view size is not compatible with input tensor's size and stride");
  return strided(self, shape, *strides, self.storage_offset());
}

Tensor reshape_alias(const Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return strided(self, sizes, strides, self.storage_offset());
}

at::Scalar local_scalar(const Tensor& self) {
  if (inside == 0) synchronize(self.get_device());
  return values_of(self, false).item();
}

/// The bits of the CPU need the CPU's choice among its algorithms, which LibTorch makes by the device.
Tensor convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                   bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const Inside here;
  record().operation("aten::convolution");
  note_use(x);
  std::optional<Tensor> added;
  if (bias && bias->defined()) added = bias->cpu();
  return at::convolution_symint(x.cpu(), weight.cpu(), added, stride, padding, dilation, transposed,
                                output_padding, std::move(groups))
      .to(x.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& gradient, const Tensor& x, const Tensor& weight, at::OptionalSymIntArrayRef bias_sizes,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups, std::array<bool, 3> wanted) {
  const Inside here;
  record().operation("aten::convolution_backward");
  note_use(x);
  auto [a, b, c] =
      at::convolution_backward_symint(gradient.cpu(), x.cpu(), weight.cpu(), bias_sizes, stride, padding,
                                      dilation, transposed, output_padding, std::move(groups), wanted);
  const auto up = [&](const Tensor& one) { return one.defined() ? one.to(x.device()) : one; };
  return {up(a), up(b), up(c)};
}

void each_tensor(const c10::IValue& value, const std::function<void(const Tensor&)>& use) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) use(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& one : value.toTensorVector()) use(one);
  } else if (value.isList()) {
    for (const c10::IValue& one : value.toListRef()) each_tensor(one, use);
  }
}

/// A card refuses tensors of two devices; the CPU's kernels would not notice.
void check_devices(const std::string& name, const torch::jit::Stack& stack, std::size_t arguments) {
  // These take index tensors of the CPU.
  const bool indexes =
      name.find("index") != std::string::npos || name.find("_fused_adam") != std::string::npos;
  std::optional<Device> first;
  for (std::size_t i = stack.size() - arguments; i < stack.size(); ++i) {
    each_tensor(stack[i], [&](const Tensor& one) {
      if (one.is_cpu() && (one.dim() == 0 || indexes)) return;
      if (!first) first = one.device();
      TORCH_CHECK(one.device() == *first, name,
                  ": Expected all tensors to be on the same device, but found at least two devices, ", *first,
                  " and ", one.device(), "!");
      if (one.is_cuda()) note_use(one);
    });
  }
}

/// Arguments that an operation writes to. Batch norm's running statistics are written, although its schema
/// does not say so.
bool writes(const std::string& name, const c10::Argument& argument) {
  const c10::AliasInfo* const alias = argument.alias_info();
  if (alias != nullptr && alias->isWrite()) return true;
  return name.find("batch_norm") != std::string::npos && argument.name().starts_with("running_");
}

/// An operation in the CPU's kernel, which sees the values of the device's memory in place.
class ByTheCpu {
 public:
  ByTheCpu(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), name_(toString(op.operator_name())) {
    record().operation(name_);
    check_devices(name_, stack, op.schema().arguments().size());
  }

  void run() {
    const Inside here;
    const auto& arguments = op_.schema().arguments();
    const std::size_t first = stack_.size() - arguments.size();
    for (std::size_t i = 0; i < arguments.size(); ++i)
      stack_[first + i] = lowered(stack_[first + i], writes(name_, arguments[i]));
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& value = stack_[first + i];
      if (arguments[i].name() == "generator" && value.isNone()) value = generator(device_);
      if (value.isDevice() && value.toDevice().is_cuda()) value = Device(at::kCPU);
    }
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    for (const auto& [values, argument] : arguments_) {
      if (values.sizes() == argument.sizes()) continue;  // else: memory for a result, which had no elements
      resize_(argument, values.sizes(), std::nullopt);
      argument.unsafeGetTensorImpl()->set_sizes_and_strides(values.sizes(), values.strides());
      move_values(values, argument);
    }
    const std::size_t results = op_.schema().returns().size();
    for (std::size_t i = stack_.size() - results; i < stack_.size(); ++i) stack_[i] = raised(stack_[i]);
  }

 private:
  c10::IValue lowered(const c10::IValue& value, bool written) {
    if (value.isTensor()) return value.toTensor().defined() ? lowered(value.toTensor(), written) : value;
    if (value.isTensorList()) {
      std::vector<Tensor> all = value.toTensorVector();
      for (Tensor& one : all) one = lowered(one, written);
      return all;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> all;
      for (const std::optional<Tensor>& one : value.toOptionalTensorVector())
        all.push_back(one && one->defined() ? std::optional(lowered(*one, written)) : one);
      return all;
    }
    return value;
  }

  Tensor lowered(const Tensor& tensor, bool written) {
    if (!tensor.is_cuda()) return tensor;
    device_ = tensor.get_device();
    Tensor values = values_of(tensor, written);
    arguments_.emplace_back(values, tensor);
    return values;
  }

  /// A result is one of the arguments, or new memory of the device. The host waits for a number.
  c10::IValue raised(const c10::IValue& value) {
    if (value.isTensor()) return value.toTensor().defined() ? raised(value.toTensor()) : value;
    if (value.isTensorList()) {
      std::vector<Tensor> all = value.toTensorVector();
      for (Tensor& one : all) one = raised(one);
      return all;
    }
    if (value.isScalar() || value.isBool()) synchronize(device_);
    return value;
  }

  Tensor raised(const Tensor& tensor) {
    for (const auto& [values, argument] : arguments_) {
      if (values.is_same(tensor)) return argument;
    }
    Tensor made =
        empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), {}, Device(cuda, device_), {});
    move_values(tensor, made);
    return made;
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::string name_;
  DeviceIndex device_ = current;
  std::vector<std::pair<Tensor, Tensor>> arguments_;  ///< values, and the tensor of the device
};

void by_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { ByTheCpu(op, *stack).run(); }

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const std::optional<Tensor>& mask, double dropout, bool causal, std::optional<double> scale,
                 bool /*grouped*/) {
  return std::get<0>(
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale));
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&by_the_cpu>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("copy_", copy_);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("resize_", resize_);
  library.impl("as_strided", strided);
  library.impl("view", view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("_local_scalar_dense", local_scalar);
  // Its default is not the CPU's kernel.
  library.impl("native_layer_norm", torch::CppFunction::makeFromBoxedFunction<&by_the_cpu>());
  library.impl("convolution", convolution);
  library.impl("convolution_backward", convolution_backward);
}

TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) { library.impl("scaled_dot_product_attention", attention); }

// For Python, whose torch.cuda is made of functions that LibTorch without CUDA lacks (sitecustomize.py).
TORCH_LIBRARY(fake_device, library) {
  library.def("count", [] { return static_cast<std::int64_t>(devices()); });
  library.def("current", [] { return static_cast<std::int64_t>(current); });
  library.def("use(int device) -> ()",
              [](std::int64_t device) { Guard().setDevice(Device(cuda, static_cast<DeviceIndex>(device))); });
  library.def("generator(int device) -> Generator?", [](std::int64_t device) -> std::optional<at::Generator> {
    return generator(static_cast<DeviceIndex>(device));
  });
  library.def("synchronize(int device) -> ()", [](std::int64_t device) {
    if (!record().synchronizations.forgets()) synchronize(static_cast<DeviceIndex>(device));
  });
  library.def("write_record() -> ()", [] { record().write(); });
}

const c10::impl::DeviceGuardImplRegistrar guard(cuda, new Guard);

const bool has_allocator = [] {
  c10::SetAllocator(cuda, &allocator);
  return true;
}();

}  // namespace

// bitrift-train ends without the destructors of static objects; the library that loads this one calls it
// then.
extern "C" void fake_device_write_record() { record().write(); }
extern "C" int fake_device_is_read_by_mpi() { return fake_device::works_later() ? 1 : 0; }

namespace at {

// In LibTorch's namespace, because the macro of its registry names the class without one.
struct FakeCuda final : CUDAHooksInterface {
  explicit FakeCuda(CUDAHooksArgs /*none*/) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex /*device*/) const override { return true; }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(devices()); }
  int getNumGPUs() const override { return devices(); }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex current_device() const override { return current; }
  void setCurrentDevice(DeviceIndex device) const override { current = device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return std::exchange(current, device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return std::exchange(current, device);
  }
  const Generator& getDefaultGenerator(DeviceIndex device) const override {
    return generator(device < 0 ? current : device);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(c10::DeviceType::CPU);
  }
  bool isPinnedPtr(const void* /*data*/) const override { return false; }
  void deviceSynchronize(DeviceIndex device) const override {
    const DeviceIndex chosen = device < 0 ? current : device;
    record().use(chosen);
    if (record().synchronizations.forgets()) return;
    synchronize(chosen);
  }
};

C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", FakeCuda)

}  // namespace at
