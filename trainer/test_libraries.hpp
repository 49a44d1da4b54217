// The champions of a preset's seams, built once for all tests of a program.
#pragma once

#include <lab/core/files.hpp>
#include <trainer/seam_set.hpp>

#include <gtest/gtest.h>

namespace kl::trainer {

inline SeamFiles test_champions(const Config& config) {
  static const TemporaryFolder cache = std::move(*TemporaryFolder::create("trainer-libraries"));
  const Engine& engine = **find_engine("cpu");
  auto built = champion_files(config, engine, Builder(engine, cache.path()));
  EXPECT_TRUE(built.ok()) << built.error().what;
  return built.ok() ? *built : SeamFiles{};
}

}  // namespace kl::trainer
