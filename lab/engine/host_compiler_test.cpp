// What a kernel's source may take in while it is compiled: itself and the permitted headers.
#include <lab/engine/host_compiler.hpp>

#include <lab/core/files.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

class HostCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_file_atomic(beside() / "beside.inc", "int beside = 1;\n").ok());
    ASSERT_TRUE(make_directories(included()).ok());
    ASSERT_TRUE(write_file_atomic(included() / "header.hpp", "inline int included = 1;\n").ok());
  }
  fs::path beside() const { return folder_.path(); }
  fs::path included() const { return folder_.path() / "include"; }

  Result<CompileReport> compile(const std::string& source) {
    const fs::path file = folder_.path() / "kernel.cpp";
    EXPECT_TRUE(write_file_atomic(file, source).ok());
    const auto compiler = HostCompiler::find();
    if (!compiler.ok()) return compiler.error();
    return compiler->compile({file, folder_.path() / "kernel.so", {included()}, "", "mine.cpp"},
                             {"-std=c++20", "-shared", "-fPIC"});
  }
  void expect_refused(const std::string& source, const std::string& why) {
    const auto built = compile(source);
    ASSERT_FALSE(built.ok()) << source;
    EXPECT_EQ(built.error().status, Status::build_failed);
    EXPECT_NE(built.error().what.find(why), std::string::npos) << built.error().what;
  }

  TemporaryFolder folder_ = TemporaryFolder::create("host-compiler-test").value();
};

TEST_F(HostCompilerTest, HeadersOfTheIncludeFoldersAndOfTheCompilerAreFree) {
  const auto built = compile("#include <cmath>\n#include <header.hpp>\nint f() { return included; }\n");
  EXPECT_TRUE(built.ok()) << built.error().what;
}

TEST_F(HostCompilerTest, AFileBesideTheSourceIsRefused) {
  expect_refused("#include \"beside.inc\"\n", "beside.inc");
  expect_refused("#include \"" + (beside() / "beside.inc").string() + "\"\n", "one file");
  expect_refused("#include <../beside.inc>\n", "beside.inc");
}

TEST_F(HostCompilerTest, AFileThatOnlyTheAssemblerReadsIsRefused) {
  if (HostCompiler::find()->program().find("clang") != std::string::npos) GTEST_SKIP();
  expect_refused("asm(\".incbin \\\"" + (beside() / "beside.inc").string() + "\\\"\");\n", "beside.inc");
}

TEST_F(HostCompilerTest, TheTimeOfCompilingIsRefused) {
  expect_refused("const char* when = __TIME__;\n", "mine.cpp");
}

}  // namespace
}  // namespace kl
