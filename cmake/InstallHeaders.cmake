# Copies the headers of `rooms`, folders of src, from `source` to `destination`/bitrift, by way of the folder `staging`.
# A project that uses them may have a folder "core" of its own: what the tree includes as "core/error.h" is
# "bitrift/core/error.h" there.
file(REMOVE_RECURSE "${staging}")
foreach(room IN LISTS rooms)
  file(GLOB_RECURSE headers RELATIVE "${source}" "${source}/${room}/*.h")
  foreach(header IN LISTS headers)
    file(READ "${source}/${header}" text)
    string(REGEX REPLACE "(#include \")([a-z0-9_]+/)" "\\1bitrift/\\2" text "${text}")
    file(WRITE "${staging}/bitrift/${header}" "${text}")
  endforeach()
endforeach()
file(INSTALL "${staging}/bitrift" DESTINATION "${destination}")
