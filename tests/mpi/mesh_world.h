// What tests of meshes under mpirun share: the world, the ranks of a mesh, and arrays to add.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "comm/topology.h"
#include "mpi/communicator.h"
#include "mpi/environment.h"

namespace bitrift::mpi {

inline const Environment* environment_pointer = nullptr;
inline const Communicator& world() { return environment_pointer->world(); }

/// The ranks of a mesh; nothing on a rank that is none of them. Collective over all.
inline std::optional<Communicator> ranks_of(const comm::Topology& mesh) {
  const bool in = world().rank() < static_cast<int>(mesh.live().size());
  const Communicator made = world().split(in ? 0 : 1, world().rank());
  return in ? std::optional(made) : std::nullopt;
}

/// Floats of both signs and far apart, so that another order of additions rounds to other bits. Integers so
/// large that the sum of 16 has no bit to spare.
template <typename T>
std::vector<std::vector<T>> arrays_of(std::size_t ranks, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed * 1'000'003 + count);
  std::vector<std::vector<T>> all(ranks, std::vector<T>(count));
  for (auto& array : all) {
    for (T& value : array) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(static_cast<std::int64_t>(random()) >> 4);
        if constexpr (sizeof(T) == 4) value = static_cast<T>(static_cast<std::int32_t>(random()) >> 4);
      } else {
        value = static_cast<T>(std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                                          static_cast<int>(random() % 40) - 80));
      }
    }
  }
  return all;
}

/// All tests, in a world of `size` ranks. The exit code of main().
inline int run_in_world(int count, char** arguments, int size) {
  testing::InitGoogleTest(&count, arguments);
  Environment environment;
  environment_pointer = &environment;
  if (world().size() != size) {
    std::fprintf(stderr, "expected a world of %d ranks, found %d\n", size, world().size());
    environment.abort(2);
  }
  if (world().rank() != 0) {
    // Failures of other ranks go to stderr all the same.
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  }
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) environment.abort(1);
  environment.finalize();
  return 0;
}

}  // namespace bitrift::mpi
