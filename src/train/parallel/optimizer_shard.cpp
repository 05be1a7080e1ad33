#include "train/parallel/optimizer_shard.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "train/parallel/transfer.h"

namespace bitrift::train {
namespace {

// From this size on, a separate message costs less than a copy.
constexpr std::size_t large_bytes = std::size_t{1} << 18;
constexpr std::size_t most_at_once = std::size_t{1} << 28;  // one MPI call carries less than 2 GiB

bool goes_alone(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && tensor.nbytes() >= large_bytes;
}

void broadcast_bytes(const mpi::Communicator& peers, char* data, std::size_t bytes, int root) {
  for (std::size_t at = 0; at < bytes; at += most_at_once)
    peers.broadcast(data + at, std::min(most_at_once, bytes - at), root);
}

}  // namespace

std::vector<int> spread_by_size(const std::vector<std::uint64_t>& sizes, int parts) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  std::vector<std::uint64_t> loads(static_cast<std::size_t>(parts));
  std::vector<int> owners(sizes.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += sizes[i];
    owners[i] = static_cast<int>(least - loads.begin());
  }
  return owners;
}

ParameterExchange::ParameterExchange(const std::vector<torch::Tensor>& parameters,
                                     const std::vector<int>& owners, mpi::Communicator peers)
    : peers_(std::move(peers)), owned_(static_cast<std::size_t>(peers_.size())) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Owned& owned = owned_.at(static_cast<std::size_t>(owners.at(i)));
    if (goes_alone(parameters[i])) {
      owned.large.push_back(parameters[i]);
    } else {
      owned.small.push_back(parameters[i]);
      owned.small_bytes += parameters[i].nbytes();
    }
  }
}

void ParameterExchange::run() {
  const torch::NoGradGuard no_grad;
  for (std::size_t owner = 0; owner < owned_.size(); ++owner) {
    const auto root = static_cast<int>(owner);
    for (const torch::Tensor& tensor : owned_[owner].large)
      broadcast_bytes(peers_, static_cast<char*>(tensor.mutable_data_ptr()), tensor.nbytes(), root);
    send_small(owned_[owner], root);
  }
}

void ParameterExchange::send_small(const Owned& owned, int owner) {
  if (owned.small.empty()) return;
  packed_.resize(std::max(packed_.size(), owned.small_bytes));
  const bool sends = peers_.rank() == owner;
  char* at = packed_.data();
  for (std::size_t i = 0; sends && i < owned.small.size(); ++i) {
    const torch::Tensor host = host_copy(owned.small[i]);
    std::memcpy(at, host.const_data_ptr(), host.nbytes());
    at += host.nbytes();
  }
  broadcast_bytes(peers_, packed_.data(), owned.small_bytes, owner);
  for (std::size_t i = 0; !sends && i < owned.small.size(); ++i) {
    torch::Tensor target = owned.small[i];
    const bool direct = target.is_cpu() && target.is_contiguous();
    const torch::Tensor host = direct ? target.detach() : torch::empty(target.sizes(), target.scalar_type());
    std::memcpy(host.mutable_data_ptr(), at, host.nbytes());
    if (!direct) target.copy_(host);
    at += host.nbytes();
  }
}

}  // namespace bitrift::train
