#include "train/parallel/transfer.h"

#include <cstring>

#include "mpi/environment.h"

namespace bitrift::train {
namespace {

// The number of sends that may wait for their receivers before the oldest is awaited.
constexpr std::size_t window = 64;

bool direct(torch::Device device) { return device.is_cpu() || mpi::reads_device_memory(); }

}  // namespace

Transfer::Transfer(mpi::Communicator communicator) : communicator_(std::move(communicator)) {}

void Transfer::send(const torch::Tensor& tensor, int to, int tag) {
  torch::Tensor memory = tensor.detach().contiguous();
  if (!direct(memory.device())) {
    const torch::Tensor pinned =
        torch::empty(memory.sizes(), memory.options().device(torch::kCPU).pinned_memory(true));
    pinned.copy_(memory);
    memory = pinned;
  } else if (memory.is_cuda()) {
    torch::cuda::synchronize(memory.device().index());
  }
  if (sent_.size() >= window) {
    sent_.front().request.wait();
    sent_.erase(sent_.begin());
  }
  mpi::Request request = communicator_.start_send(memory.const_data_ptr(), memory.nbytes(), to, tag);
  sent_.push_back({std::move(memory), std::move(request)});
}

void Transfer::send_bytes(const void* data, std::size_t size, int to, int tag) {
  const torch::Tensor memory = torch::empty({static_cast<std::int64_t>(size)}, torch::kUInt8);
  std::memcpy(memory.data_ptr(), data, size);
  send(memory, to, tag);
}

torch::Tensor Transfer::receive(const std::vector<std::int64_t>& shape, torch::ScalarType dtype,
                                torch::Device device, int from, int tag) const {
  const bool straight = direct(device);
  const auto options = torch::TensorOptions(dtype).device(straight ? device : torch::Device(torch::kCPU));
  const torch::Tensor memory = torch::empty(shape, straight ? options : options.pinned_memory(true));
  // The card may still read this memory for its former owner: MPI does not wait for the card's stream.
  if (memory.is_cuda()) torch::cuda::synchronize(memory.device().index());
  communicator_.receive(memory.data_ptr(), memory.nbytes(), from, tag);
  return memory.to(device);
}

void Transfer::finish() {
  for (Sent& sent : sent_) sent.request.wait();
  sent_.clear();
}

torch::Tensor host_copy(const torch::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

}  // namespace bitrift::train
