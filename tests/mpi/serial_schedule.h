// Runs a schedule in one process, one send at a time. Shares no code with src/mpi.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "comm/mesh_schedule.h"

namespace bitrift::tests {

/// arrays: one per live chip, ascending. Of the sends that wait for nothing, one that `random` names is next.
/// brings: given the index of a send and a copy of its chunk, makes of them what arrives.
template <typename T>
void run_serially(
    const comm::Schedule& plan, std::vector<std::vector<T>>& arrays, std::mt19937_64& random,
    const std::function<void(std::size_t, std::vector<T>&)>& brings = [](std::size_t, std::vector<T>&) {}) {
  std::vector<std::size_t> place(static_cast<std::size_t>(plan.topology().chips()));
  for (std::size_t i = 0; i < arrays.size(); ++i)
    place[static_cast<std::size_t>(plan.topology().live()[i])] = i;
  std::vector<std::vector<std::size_t>> then(plan.size());
  std::vector<std::size_t> missing(plan.size()), ready;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    missing[i] = plan.after(i).size();
    for (const std::size_t before : plan.after(i)) then[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const std::size_t index = ready.back();
    ready.pop_back();
    const comm::Send& send = plan.send(index);
    const std::size_t elements = arrays[0].size(), chunks = plan.chunks(), chunk = send.chunk;
    // The chunks are as equal as they can be; longer ones come first.
    std::size_t begin = 0, length = 0;
    for (std::size_t c = 0; c <= chunk; ++c) {
      begin += length;
      length = (elements + chunks - 1 - c) / chunks;
    }
    const T* chunk_of_sender = arrays[place[send.from]].data() + begin;
    std::vector<T> from(chunk_of_sender, chunk_of_sender + length);
    brings(index, from);
    T* to = arrays[place[send.to]].data() + begin;
    for (std::size_t i = 0; i < length; ++i)
      to[i] = send.kind == comm::SendKind::add ? to[i] + from[i] : from[i];
    for (const std::size_t next : then[index]) {
      if (--missing[next] == 0) ready.push_back(next);
    }
  }
}

/// The same sends in another list order.
inline comm::Schedule shuffled(const comm::Schedule& plan, std::mt19937_64& random) {
  std::vector<std::uint32_t> old_at(plan.size()), new_of(plan.size());
  for (std::uint32_t i = 0; i < plan.size(); ++i) old_at[i] = i;
  for (std::size_t i = plan.size(); i > 1; --i) std::swap(old_at[i - 1], old_at[random() % i]);
  for (std::uint32_t i = 0; i < plan.size(); ++i) new_of[old_at[i]] = i;
  comm::Schedule other(plan.topology(), plan.scheme(), plan.chunks());
  for (const std::uint32_t old : old_at) {
    std::vector<std::uint32_t> after;
    for (const std::uint32_t before : plan.after(old)) after.push_back(new_of[before]);
    other.append(plan.send(old), after);
  }
  return other;
}

}  // namespace bitrift::tests
