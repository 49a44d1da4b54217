// The champions of the trainer's seams, built once for all tests of a program.
#pragma once

#include <lab/core/files.hpp>
#include <trainer/seam_set.hpp>

#include <gtest/gtest.h>

namespace kl::trainer {

inline const SeamFiles& test_champions() {
  static const TemporaryFolder cache = std::move(*TemporaryFolder::create("trainer-libraries"));
  static const SeamFiles files = [] {
    const Engine& engine = **find_engine("cpu");
    auto built = champion_files(Config{}, engine, Builder(engine, cache.path()));
    EXPECT_TRUE(built.ok()) << built.error().what;
    return built.ok() ? *built : SeamFiles{};
  }();
  return files;
}

}  // namespace kl::trainer
