# A relocatable tree: bin/ and share/kernel-lab/, with what builds of kernels and oracles need.
set(KL_INSTALL_SHARE ${CMAKE_INSTALL_DATADIR}/kernel-lab)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kernel_lab DESTINATION ${KL_INSTALL_SHARE}/include)
install(FILES ${KL_DLPACK_INCLUDE}/dlpack/dlpack.h DESTINATION ${KL_INSTALL_SHARE}/include/dlpack)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/targets DESTINATION ${KL_INSTALL_SHARE})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/trainer/presets DESTINATION ${KL_INSTALL_SHARE})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${KL_INSTALL_SHARE})
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# For a machine that lacks them (another distribution, a bare container): what the programs link,
# beside them. The C library, the loader and the compiler's own libraries stay the machine's: kernels
# are compiled there and loaded beside them.
option(KL_INSTALL_LIBRARIES "Install the shared libraries that the programs need" OFF)
if(KL_INSTALL_LIBRARIES)
  install(CODE [[
    file(GLOB programs "${CMAKE_INSTALL_PREFIX}/bin/kernel-lab*" "${CMAKE_INSTALL_PREFIX}/bin/*_test")
    file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs}
      RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
      PRE_EXCLUDE_REGEXES "^ld-linux" "^libc\\.so" "^libm\\.so" "^libpthread\\." "^libdl\\." "^librt\\."
        "^libstdc\\+\\+\\." "^libgcc_s\\." "^libgomp\\.")
    foreach(library IN LISTS found)
      file(INSTALL "${library}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib" FOLLOW_SYMLINK_CHAIN)
    endforeach()
    if(missing)
      message(WARNING "not found, and so not installed: ${missing}")
    endif()
  ]])
endif()
