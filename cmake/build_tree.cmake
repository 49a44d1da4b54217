# The build tree mirrors the install tree: build/bin beside build/share/kernel-lab, so that the
# programs find include/, targets/ and presets/ the same way in both.
set(KL_SHARE ${PROJECT_BINARY_DIR}/share/kernel-lab)
file(MAKE_DIRECTORY ${KL_SHARE}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/targets ${KL_SHARE}/targets SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/trainer/presets ${KL_SHARE}/presets SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/kernel_lab ${KL_SHARE}/include/kernel_lab SYMBOLIC)
find_path(KL_DLPACK_INCLUDE dlpack/dlpack.h REQUIRED)
file(CREATE_LINK ${KL_DLPACK_INCLUDE}/dlpack ${KL_SHARE}/include/dlpack SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/examples ${KL_SHARE}/examples SYMBOLIC)
