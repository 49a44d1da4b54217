# Run with -P: the bytes of INPUT as a C++ array in OUTPUT.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "// Generated from device_code.cu.
namespace kl::cuda {
extern const unsigned char kDeviceCode[];
alignas(16) const unsigned char kDeviceCode[] = {
${bytes}};
}  // namespace kl::cuda
")
