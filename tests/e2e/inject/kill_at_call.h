// The interruption of a program at a call that alters files.
#pragma once

namespace bitrift::tests {

/// Where the program ends, and how.
struct Interruption {
  long at = 0;        ///< the call, counted from 1 from this moment on; 0: none
  bool half = false;  ///< a call that writes first writes the front half of its bytes
  int error = 0;      ///< errno: the call fails with it, and the program continues
};

/// The one of this process.
[[nodiscard]] Interruption& interruption();

}  // namespace bitrift::tests
