// Where the tests find what they read and run. Not macros: their text would make each clone's objects its
// own.
#pragma once

namespace bitrift::testing {

extern const char* const source_dir;  ///< of the tree
extern const char* const binary_dir;  ///< of the build

}  // namespace bitrift::testing
