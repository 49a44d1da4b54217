# A relocatable tree: bin/ and share/kernel-lab/, with what builds of kernels and oracles need.
set(KL_INSTALL_SHARE ${CMAKE_INSTALL_DATADIR}/kernel-lab)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kernel_lab DESTINATION ${KL_INSTALL_SHARE}/include)
install(FILES ${KL_DLPACK_INCLUDE}/dlpack/dlpack.h DESTINATION ${KL_INSTALL_SHARE}/include/dlpack)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/targets DESTINATION ${KL_INSTALL_SHARE})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/trainer/presets DESTINATION ${KL_INSTALL_SHARE})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${KL_INSTALL_SHARE})
