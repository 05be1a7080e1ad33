// Tensors as messages, wherever they live. Inside train/ only.
#pragma once

#include <vector>

#include "dataset/torch.h"
#include "mpi/communicator.h"

namespace bitrift::train {

/// Tensors between two ranks. A tensor of a device goes through pinned host memory, unless the MPI library
/// says that it reads device memory itself.
class Transfer {
 public:
  explicit Transfer(mpi::Communicator communicator);

  /// Never blocks, because a blocking send of a large message waits for a peer that may itself be sending.
  /// Keeps the memory until finish(), or until `window` later sends have begun.
  void send(const torch::Tensor& tensor, int to, int tag);
  void send_bytes(const void* data, std::size_t size, int to, int tag);
  [[nodiscard]] torch::Tensor receive(const std::vector<std::int64_t>& shape, torch::ScalarType dtype,
                                      torch::Device device, int from, int tag) const;
  /// Waits until all sends have completed.
  void finish();

 private:
  struct Sent {
    torch::Tensor memory;
    mpi::Request request;
  };
  mpi::Communicator communicator_;
  std::vector<Sent> sent_;
};

/// On the host and contiguous: the tensor itself if it already is.
[[nodiscard]] torch::Tensor host_copy(const torch::Tensor& tensor);

}  // namespace bitrift::train
