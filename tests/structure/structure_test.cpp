// The architecture, held: includes agree with the link graph, dependencies point one way, and
// engines, targets and the trainer see only what they may.
#include <lab/core/files.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <regex>
#include <set>

namespace kl {
namespace {

const fs::path kRoot = KL_SOURCE_DIR;

using Graph = std::map<std::string, std::set<std::string>>;

// kl_library(name DEPS kl_a kl_b …) of every folder under lab/.
Graph declared_links() {
  Graph graph;
  for (const auto& entry : fs::directory_iterator(kRoot / "lab")) {
    if (!entry.is_directory()) continue;
    const std::string text = *read_file(entry.path() / "CMakeLists.txt");
    std::smatch call;
    EXPECT_TRUE(std::regex_search(text, call, std::regex(R"(kl_library\((\w+)\s+([^)]*)\))"))) << entry.path();
    const std::string name = call[1], arguments = call[2];
    EXPECT_EQ(name, entry.path().filename().string());
    graph[name];
    std::string section;
    const std::regex word(R"(\S+)");
    for (auto it = std::sregex_iterator(arguments.begin(), arguments.end(), word); it != std::sregex_iterator(); ++it) {
      const std::string token = it->str();
      if (token == "DEPS" || token == "PRIVATE_DEPS" || token == "TEST_DEPS") section = token;
      else if (section != "TEST_DEPS" && token.starts_with("kl_")) graph[name].insert(token.substr(3));
    }
  }
  return graph;
}

std::set<std::string> reachable(const Graph& graph, const std::string& from) {
  std::set<std::string> seen;
  std::function<void(const std::string&)> visit = [&](const std::string& node) {
    if (!seen.insert(node).second) return;
    if (const auto it = graph.find(node); it != graph.end())
      for (const auto& next : it->second) visit(next);
  };
  visit(from);
  return seen;
}

// First-party includes of a file: "lab/core", "engines/cpu", "kernel_lab", "trainer".
std::vector<std::string> included_parts(const fs::path& file) {
  std::vector<std::string> parts;
  const std::string text = *read_file(file);
  const std::regex include(R"(#include\s+[<"]((lab|engines|targets|trainer|apps|adapters)/(\w+)|kernel_lab)[/.])");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), include); it != std::sregex_iterator(); ++it)
    parts.push_back((*it)[1]);
  return parts;
}

std::vector<fs::path> sources(const fs::path& folder, bool with_tests) {
  std::vector<fs::path> result;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool source = name.ends_with(".cpp") || name.ends_with(".hpp") || name.ends_with(".h") || name.ends_with(".cu");
    if (source && (with_tests || name.find("_test.") == std::string::npos)) result.push_back(entry.path());
  }
  return result;
}

TEST(structure, the_link_graph_has_no_cycle) {
  const Graph graph = declared_links();
  ASSERT_GE(graph.size(), 10u);
  for (const auto& [name, links] : graph)
    for (const auto& link : links)
      EXPECT_FALSE(reachable(graph, link).contains(name)) << name << " and " << link << " need each other";
}

TEST(structure, includes_of_lab_agree_with_the_link_graph) {
  const Graph graph = declared_links();
  for (const auto& [name, links] : graph) {
    const auto allowed = reachable(graph, name);
    for (const auto& file : sources(kRoot / "lab" / name, false))
      for (const auto& part : included_parts(file)) {
        if (part == "kernel_lab") {
          EXPECT_TRUE(allowed.contains("abi")) << file << " includes the kernel ABI without linking kl_abi";
          continue;
        }
        EXPECT_TRUE(part.starts_with("lab/") && allowed.contains(part.substr(4)))
            << file << " includes " << part << ", which its library does not link";
      }
  }
}

TEST(structure, core_depends_on_nothing_of_ours) {
  EXPECT_EQ(reachable(declared_links(), "core"), std::set<std::string>{"core"});
}

TEST(structure, an_engine_sees_the_engine_interface_and_core_only) {
  for (const auto& entry : fs::directory_iterator(kRoot / "engines")) {
    if (!entry.is_directory()) continue;
    const std::string own = "engines/" + entry.path().filename().string();
    for (const auto& file : sources(entry.path(), false))
      for (const auto& part : included_parts(file))
        EXPECT_TRUE(part == "lab/engine" || part == "lab/core" || part == own || part == "kernel_lab")
            << file << " includes " << part;
  }
}

TEST(structure, a_target_sees_the_kernel_headers_only) {
  for (const auto& file : sources(kRoot / "targets", true)) {
    for (const auto& part : included_parts(file)) EXPECT_EQ(part, "kernel_lab") << file;
    if (file.filename() == "oracle.cpp") continue;
    EXPECT_EQ(read_file(file)->find("oracle.hpp"), std::string::npos) << file << ": kernels never see oracle types";
  }
}

TEST(structure, the_trainer_sees_what_opens_a_kernel_and_itself) {
  const std::set<std::string> allowed = {"lab/core", "lab/build", "lab/engine", "lab/target", "lab/services", "kernel_lab"};
  for (const auto& file : sources(kRoot / "trainer", true))
    for (const auto& part : included_parts(file))
      EXPECT_TRUE(allowed.contains(part) || part.starts_with("trainer")) << file << " includes " << part;
}

TEST(structure, library_code_neither_prints_nor_exits) {
  const std::regex prints(R"(\b(std::cout|std::cerr|std::exit|::exit|printf|fmt::print)\b\s*[(<])");
  for (const char* part : {"lab", "engines"})
    for (const auto& file : sources(kRoot / part, false)) {
      const std::string text = *read_file(file);
      std::smatch found;
      EXPECT_FALSE(std::regex_search(text, found, prints)) << file << " uses " << found.str();
    }
}

TEST(structure, every_record_schema_file_matches_its_name) {
  for (const auto& entry : fs::directory_iterator(kRoot / "docs" / "schemas")) {
    const std::string stem = entry.path().stem().stem().string();
    EXPECT_NE(read_file(entry.path())->find("\"title\": \"" + stem + "\""), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace kl
