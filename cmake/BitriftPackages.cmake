# Packages. CMAKE_PREFIX_PATH comes first everywhere; after it the project's .venv (LibTorch and Open MPI as Python
# wheels, see tools/setup), then the system.
find_package(nlohmann_json 3.10 REQUIRED)
find_package(spdlog 1.9 REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.71 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)

find_path(BITRIFT_VALIJSON_INCLUDE valijson/validator.hpp REQUIRED)
add_library(bitrift_valijson INTERFACE)
target_include_directories(bitrift_valijson SYSTEM INTERFACE "${BITRIFT_VALIJSON_INCLUDE}")

find_path(BITRIFT_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(BITRIFT_XXHASH_LIBRARY xxhash REQUIRED)
add_library(bitrift_xxhash INTERFACE)
target_include_directories(bitrift_xxhash SYSTEM INTERFACE "${BITRIFT_XXHASH_INCLUDE}")
target_link_libraries(bitrift_xxhash INTERFACE "${BITRIFT_XXHASH_LIBRARY}")

find_path(BITRIFT_LIBDEFLATE_INCLUDE libdeflate.h REQUIRED)
find_library(BITRIFT_LIBDEFLATE_LIBRARY deflate REQUIRED)
add_library(bitrift_libdeflate INTERFACE)
target_include_directories(bitrift_libdeflate SYSTEM INTERFACE "${BITRIFT_LIBDEFLATE_INCLUDE}")
target_link_libraries(bitrift_libdeflate INTERFACE "${BITRIFT_LIBDEFLATE_LIBRARY}")

find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(HDF5_IS_PARALLEL)
  message(FATAL_ERROR "bitrift needs a serial HDF5 (found a parallel one): install libhdf5-dev or set HDF5_ROOT.")
endif()
add_library(bitrift_hdf5 INTERFACE)
target_include_directories(bitrift_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
target_compile_definitions(bitrift_hdf5 INTERFACE ${HDF5_DEFINITIONS})
target_link_libraries(bitrift_hdf5 INTERFACE ${HDF5_C_LIBRARIES})

set(BITRIFT_VENV "${PROJECT_SOURCE_DIR}/.venv")
if(BITRIFT_TRAIN OR BITRIFT_PYTHON)
  set(Python_FIND_VIRTUALENV FIRST)
  if(EXISTS "${BITRIFT_VENV}/bin/python" AND NOT Python_EXECUTABLE)
    set(Python_EXECUTABLE "${BITRIFT_VENV}/bin/python")
  endif()
  find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
endif()

if(BITRIFT_TRAIN)
  find_package(JPEG REQUIRED)
  find_package(PNG REQUIRED)
  find_package(Torch QUIET HINTS ${CMAKE_PREFIX_PATH})
  if(NOT Torch_FOUND)
    file(GLOB torch_share "${BITRIFT_VENV}/lib/python3*/site-packages/torch/share/cmake")
    find_package(Torch REQUIRED PATHS ${torch_share})
  endif()
  add_library(bitrift_torch INTERFACE)
  # LibTorch brings an fmt of its own, which fits neither the installed spdlog nor the library that we link. Its folder
  # may be /usr/include, which cannot be moved forward in the search; a link to the one part of it can.
  find_path(BITRIFT_FMT_INCLUDE fmt/format.h REQUIRED)
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/generated/fmt-first")
  file(CREATE_LINK "${BITRIFT_FMT_INCLUDE}/fmt" "${PROJECT_BINARY_DIR}/generated/fmt-first/fmt" SYMBOLIC)
  target_include_directories(bitrift_torch SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/generated/fmt-first")
  # LibTorch's headers warn under our flags, so they are system headers here.
  target_include_directories(bitrift_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(bitrift_torch INTERFACE ${TORCH_LIBRARIES})
  separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  target_compile_options(bitrift_torch INTERFACE ${torch_flags})

  # A step of a small model allocates hundreds of blocks, most of them aligned, which glibc's allocator does slowly:
  # LeNet on digits takes a fifth less time with this one. Only linked, so its headers are not needed.
  find_library(BITRIFT_TCMALLOC NAMES tcmalloc_minimal libtcmalloc_minimal.so.4)

  # FindMPI would look at MPI_HOME first: it is set to the .venv only where the prefix path holds no MPI.
  string(REPLACE ":" ";" prefixes "$ENV{CMAKE_PREFIX_PATH}")
  find_program(BITRIFT_PREFIX_MPICXX mpicxx PATHS ${CMAKE_PREFIX_PATH} ${prefixes} PATH_SUFFIXES bin NO_DEFAULT_PATH)
  mark_as_advanced(BITRIFT_PREFIX_MPICXX)
  if(NOT MPI_HOME AND NOT MPI_CXX_COMPILER AND NOT BITRIFT_PREFIX_MPICXX AND EXISTS "${BITRIFT_VENV}/bin/mpicxx")
    set(MPI_HOME "${BITRIFT_VENV}")
  endif()
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
