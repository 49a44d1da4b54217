#include <lab/build/builder.hpp>
#include <lab/build/writable_statics.hpp>

#include <lab/core/files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const Engine& cpu() { return **find_engine("cpu"); }

class WritableStatics : public testing::Test {
 protected:
  // A kernel whose `run` does `work`, with `before` before it.
  BuiltLibrary built(const std::string& before, const std::string& work, const std::string& sanitizer = "") {
    const fs::path file = folder_.path() / "kernel.cpp";
    const std::string source = "#include <kernel_lab/kernel.hpp>\nnamespace {\n" + before + R"(
kl_result accepts(const kl_problem*) { return kl::ok(); }
size_t none(const kl_problem*) { return 0; }
kl_result prepare(const kl_problem*, const kl_services*, kl_plan*) { return kl::ok(); }
kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  [[maybe_unused]] int32_t* const out = kl::data<int32_t>(call->outputs[0]);
  )" + work + R"(
  return kl::ok();
}
}  // namespace
KL_EXPORT_KERNEL("any", accepts, none, none, prepare, run);
)";
    EXPECT_TRUE(write_file_atomic(file, source).ok());
    auto library = Builder(cpu(), folder_.path() / "cache").build({file, sanitizer, {}});
    EXPECT_TRUE(library.ok()) << library.error().what;
    return library.ok() ? *library : BuiltLibrary{};
  }

  TemporaryFolder folder_ = TemporaryFolder::create("kernel-lab-writable").value();
};

TEST_F(WritableStatics, AreNamedWithTheirSizeAndSection) {
  EXPECT_THAT(built("int calls;", "*out = ++calls;").writable,
              ElementsAre("(anonymous namespace)::calls (4 bytes in .bss)"));
  EXPECT_THAT(built("int64_t left[2] = {5, 6};", "*out = --left[*out & 1];").writable,
              ElementsAre("(anonymous namespace)::left (16 bytes in .data)"));
  EXPECT_THAT(built("thread_local int calls;", "*out = ++calls;").writable,
              ElementsAre("(anonymous namespace)::calls (4 bytes in .tbss)"));
  EXPECT_THAT(built("thread_local int left = 7;", "*out = --left;").writable,
              ElementsAre("(anonymous namespace)::left (4 bytes in .tdata)"));
  EXPECT_THAT(built("[[gnu::section(\"notes\")]] int calls = 1; int more;", "*out = ++calls + ++more;").writable,
              UnorderedElementsAre("(anonymous namespace)::calls (4 bytes in notes)",
                                   "(anonymous namespace)::more (4 bytes in .bss)"));
}

TEST_F(WritableStatics, WithoutASymbolAreNamedByTheirSection) {
  EXPECT_THAT(built("asm(\".pushsection .bss\\n.Lcalls: .skip 8\\n\\t.popsection\");", "").writable,
              ElementsAre("8 bytes without a name in .bss"));
}

TEST_F(WritableStatics, OfWhatTheLoaderMakesReadOnlyAreNone) {
  const BuiltLibrary library = built(
      "constexpr int kTable[] = {3, 1, 2};\nconst char* const kNames[] = {\"a\", \"b\"};\nint f(int i) { return i; }\n"
      "int (*const kFunctions[])(int) = {f, f};",
      "static const int kMore[] = {1, 5, 2}; *out = kTable[*out & 1] + kMore[*out & 1] + kNames[*out & 1][0] + "
      "kFunctions[*out & 1](2);");
  EXPECT_THAT(library.writable, IsEmpty());
  EXPECT_THAT(library.violations, IsEmpty());
  EXPECT_FALSE(library.broken_rule().has_value());
}

TEST_F(WritableStatics, AreNotJudgedInABuildWithASanitizer) {
  EXPECT_FALSE(built("int calls;", "*out = ++calls;", "undefined").broken_rule().has_value());
}

TEST_F(WritableStatics, AreStillKnownOfALibraryFromTheCache) {
  EXPECT_FALSE(built("int calls;", "*out = ++calls;").from_cache);
  const BuiltLibrary again = built("int calls;", "*out = ++calls;");
  EXPECT_TRUE(again.from_cache);
  ASSERT_TRUE(again.broken_rule().has_value());
  EXPECT_EQ(again.broken_rule()->rule, "writable-static");
}

TEST_F(WritableStatics, OfTheStartFilesAreNotTheKernels) {
  const fs::path source = folder_.path() / "empty.cpp", library = folder_.path() / "empty.so";
  ASSERT_TRUE(write_file_atomic(source, "").ok());
  const std::string command = "g++ -shared -fPIC -Wl,-z,relro,-z,now -o " + library.string() + " " + source.string();
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no g++";
  RunTimeSymbols linked_with_them;
  linked_with_them.start_files = true;
  EXPECT_THAT(writable_statics(library, linked_with_them).value(), IsEmpty());
  EXPECT_THAT(writable_statics(library).value(), Not(IsEmpty()));
}

TEST_F(WritableStatics, OfNoLibraryAreAnError) {
  const fs::path file = folder_.path() / "text.so";
  ASSERT_TRUE(write_file_atomic(file, "no library").ok());
  EXPECT_EQ(writable_statics(file).error().status, Status::load_failed);
}

}  // namespace
}  // namespace kl
