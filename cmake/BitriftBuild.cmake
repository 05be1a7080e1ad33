# Language, warnings, ccache, sanitizers, and how a folder of src becomes a library.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(BITRIFT_CCACHE ccache)
if(BITRIFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what lets ccache serve files that use a precompiled header; the folder, what lets a build in another
  # clone, and pip's, have what one of the same sources compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" ${BITRIFT_CCACHE})
endif()

add_library(bitrift_options INTERFACE)
target_compile_options(bitrift_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
# The names of sources in objects (__FILE__, which GoogleTest prints, and what debuggers show) are those in the tree.
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wrestrict: GCC 12 and 13 raise it for `"text" + std::string` (GCC bug 105651).
  target_compile_options(bitrift_options INTERFACE -fpch-preprocess -Wno-restrict)
endif()
if(BITRIFT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's analysis goes astray in instrumented code; the release build keeps both warnings.
  target_compile_options(bitrift_options INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow)
endif()
if(BITRIFT_UNITY)
  # A source then follows others in one that is generated: their private names look like outer ones, and types like those
  # of a header. Both warnings hold in the builds without BITRIFT_UNITY.
  target_compile_options(bitrift_options INTERFACE -Wno-shadow $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(BITRIFT_SANITIZE)
  # -g1: a report names functions and lines, and nobody looks at variables; an eighth of the compiler's time.
  # -O1, after CMake's own options: the tests take a fraction of the time, and reports still name every function.
  add_compile_options(-O1 -fno-optimize-sibling-calls -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
endif()
if(BITRIFT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "libFuzzer is part of clang: configure with -DCMAKE_CXX_COMPILER=clang++ (tools/fuzz does).")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_compile_definitions(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION _GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=address,undefined)
endif()

# bitrift_room(NAME): a static library of all sources in and under src/NAME, included as "NAME/header.h".
function(bitrift_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  add_library(bitrift_${name} STATIC ${sources})
  target_include_directories(bitrift_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>")
  target_link_libraries(bitrift_${name} PRIVATE "$<BUILD_INTERFACE:bitrift_options>")
  target_compile_features(bitrift_${name} INTERFACE cxx_std_20)
  bitrift_unity(bitrift_${name})
endfunction()

# bitrift_cold(TARGET...): nothing in these takes long, so their compiling should not either: -O1 is two thirds of -O2.
function(bitrift_cold)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    if(BITRIFT_SANITIZE)
      target_compile_options(${target} PRIVATE -O0)  # half the time of -O1, since every access is checked
    endif()
  endforeach()
endfunction()

# bitrift_unity(TARGET): with BITRIFT_UNITY, the sources of a target are compiled together, at most
# BITRIFT_UNITY_SOURCES at a time: they share headers and instantiations of templates, which take most of the time.
function(bitrift_unity target)
  if(BITRIFT_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${BITRIFT_UNITY_SOURCES})
  endif()
endfunction()

# bitrift_torch(TARGET): what compiles against LibTorch shares one precompiled header. With BITRIFT_UNITY there are too few
# sources for it to pay.
function(bitrift_torch target)
  if(BITRIFT_UNITY)
    return()
  endif()
  if(target STREQUAL "bitrift_dataset")
    target_precompile_headers(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src/dataset/torch.h")
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM bitrift_dataset)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # A precompiled header made with -fPIC does not fit the -fPIE of a program.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# Turns FOLDER/*.json into a generated source of TARGET, so that the program needs no file at run time.
function(bitrift_embed_schemas target folder)
  file(GLOB schemas CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.schema.json")
  set(generated "${PROJECT_BINARY_DIR}/generated/schemas.cpp")
  add_custom_command(OUTPUT "${generated}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${generated}" "-DINPUTS=${schemas}" -P "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake"
    DEPENDS ${schemas} "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake" VERBATIM)
  target_sources(${target} PRIVATE "${generated}")
  set_source_files_properties("${generated}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # its path is that of one build
endfunction()

# Gives TARGET what src/core/build_info.h declares. The commit is that of the last configure.
function(bitrift_build_info target)
  find_package(Git QUIET)
  set(BITRIFT_COMMIT unknown)
  if(GIT_FOUND)
    execute_process(COMMAND "${GIT_EXECUTABLE}" describe --always --dirty --abbrev=12 WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
                    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(BITRIFT_COMMIT "${described}")
    endif()
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/build_info.cpp.in" "${PROJECT_BINARY_DIR}/generated/build_info.cpp" @ONLY)
  target_sources(${target} PRIVATE "${PROJECT_BINARY_DIR}/generated/build_info.cpp")
  set_source_files_properties("${PROJECT_BINARY_DIR}/generated/build_info.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
