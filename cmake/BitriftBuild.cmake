# Language, warnings, ccache, sanitizers, and how a room becomes a library.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(BITRIFT_CCACHE ccache)
if(BITRIFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what lets ccache serve files that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" ${BITRIFT_CCACHE})
endif()

add_library(bitrift_options INTERFACE)
target_compile_options(bitrift_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wrestrict: GCC 12 and 13 raise it for `"text" + std::string` (GCC bug 105651).
  target_compile_options(bitrift_options INTERFACE -fpch-preprocess -Wno-restrict)
endif()
if(BITRIFT_SANITIZE)
  # -g1: a report names functions and lines, and nobody looks at variables; an eighth of the compiler's time.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
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
  target_include_directories(bitrift_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(bitrift_${name} PRIVATE bitrift_options)
endfunction()

# One precompiled header for every target that compiles against LibTorch.
function(bitrift_torch_pch target)
  target_precompile_headers(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src/dataset/torch.h")
endfunction()

# Turns FOLDER/*.json into a generated source of TARGET, so that the program needs no file at run time.
function(bitrift_embed_schemas target folder)
  file(GLOB schemas CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.schema.json")
  set(generated "${PROJECT_BINARY_DIR}/generated/schemas.cpp")
  add_custom_command(OUTPUT "${generated}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${generated}" "-DINPUTS=${schemas}" -P "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake"
    DEPENDS ${schemas} "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake" VERBATIM)
  target_sources(${target} PRIVATE "${generated}")
endfunction()

# Gives SOURCE the version, commit and build type that provenance records. The commit is that of the last configure.
function(bitrift_stamp_version source)
  find_package(Git QUIET)
  set(commit unknown)
  if(GIT_FOUND)
    execute_process(COMMAND "${GIT_EXECUTABLE}" describe --always --dirty --abbrev=12 WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
                    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(commit "${described}")
    endif()
  endif()
  set_source_files_properties("${PROJECT_SOURCE_DIR}/${source}" PROPERTIES COMPILE_DEFINITIONS
    "BITRIFT_VERSION=\"${PROJECT_VERSION}\";BITRIFT_COMMIT=\"${commit}\";BITRIFT_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\"")
endfunction()
