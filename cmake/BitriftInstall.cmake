# What `cmake --install` and pip install: programs and the Python package; and, not by pip, the libraries of the injector
# and the analysis with their headers for find_package(bitrift), example campaigns, schemas and shell completion.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # LibTorch, MPI and HDF5 may lie in a prefix

if(SKBUILD)
  set(BITRIFT_INSTALL_BIN "${SKBUILD_SCRIPTS_DIR}")
  set(BITRIFT_INSTALL_PYTHON bitrift)
else()
  set(BITRIFT_INSTALL_BIN "${CMAKE_INSTALL_BINDIR}")
  set(BITRIFT_INSTALL_PYTHON "lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages/bitrift")
endif()

# bitrift_install_programs(TARGET...)
function(bitrift_install_programs)
  install(TARGETS ${ARGN} RUNTIME DESTINATION "${BITRIFT_INSTALL_BIN}" COMPONENT programs)
endfunction()

# bitrift_install_completion(TARGET): what TARGET prints is installed for bash, and belongs to COMPONENT completion.
function(bitrift_install_completion target)
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:${target}>\" completion bash
  OUTPUT_FILE \"${PROJECT_BINARY_DIR}/generated/${target}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT completion)
  install(FILES "${PROJECT_BINARY_DIR}/generated/${target}" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
    COMPONENT completion)
endfunction()

# bitrift_install_libraries(FOLDER...): these folders of src and what they are linked with, as bitrift::bitrift. Their
# headers are copied as "bitrift/FOLDER/header.h".
function(bitrift_install_libraries)
  add_library(bitrift_all INTERFACE)
  set_target_properties(bitrift_all PROPERTIES EXPORT_NAME bitrift)
  set(targets bitrift_all bitrift_xxhash bitrift_libdeflate bitrift_isal bitrift_valijson)
  foreach(room IN LISTS ARGN)
    set_target_properties(bitrift_${room} PROPERTIES EXPORT_NAME ${room})
    target_include_directories(bitrift_${room} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(bitrift_all INTERFACE bitrift_${room})
    list(APPEND targets bitrift_${room})
  endforeach()
  set(config_folder "${CMAKE_INSTALL_LIBDIR}/cmake/bitrift")
  install(TARGETS ${targets} EXPORT bitrift ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
  install(EXPORT bitrift NAMESPACE bitrift:: FILE bitriftTargets.cmake DESTINATION "${config_folder}" COMPONENT development)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/bitriftConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/generated/bitriftConfig.cmake" INSTALL_DESTINATION "${config_folder}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/bitriftConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/generated/bitriftConfig.cmake" "${PROJECT_BINARY_DIR}/generated/bitriftConfigVersion.cmake"
    DESTINATION "${config_folder}" COMPONENT development)
  install(CODE "set(source \"${PROJECT_SOURCE_DIR}/src\")
set(staging \"${PROJECT_BINARY_DIR}/generated/include\")
set(rooms \"${ARGN}\")
set(destination \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/InstallHeaders.cmake\")" COMPONENT development)
endfunction()
