// The facts about the build that are compiled in; the values are in a source that CMake writes
// (cmake/build_info.cpp.in).
#pragma once

namespace bitrift {

extern const char* const build_version;  ///< "0.1.0"
extern const char* const build_commit;   ///< commit of the last configure, with "-dirty" for changes; or
                                         ///< "unknown"
extern const char* const build_type;     ///< "Release"
extern const char* const build_data;     ///< data/ of the source tree

}  // namespace bitrift
