// The schema files of docs/schemas say what the record types say. KL_UPDATE_SCHEMAS=1 rewrites them.
#include "records.hpp"

#include <lab/bench/bench.hpp>
#include <lab/bench/calibration.hpp>
#include <lab/bench/deep_profile.hpp>
#include <lab/core/files.hpp>
#include <lab/flow/new_target.hpp>
#include <lab/flow/plan.hpp>
#include <lab/flow/profile.hpp>
#include <lab/flow/promotion.hpp>
#include <lab/flow/review.hpp>
#include <lab/flow/watch_log.hpp>
#include <lab/integration/aa.hpp>
#include <lab/integration/capture.hpp>
#include <lab/integration/integration_ab.hpp>
#include <lab/integration/integration_suite.hpp>
#include <lab/integration/trainer_check.hpp>
#include <lab/report/promotion_text.hpp>
#include <lab/trace/diff.hpp>
#include <lab/trace/summary.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace kl {
namespace {

const fs::path kFolder = fs::path(KL_SOURCE_DIR) / "docs" / "schemas";

template <class... Records>
std::map<std::string, Json> schemas_of() {
  return {{std::string(Records::kSchema), schema_of<Records>()}...};
}

std::map<std::string, Json> all_schemas() {
  using namespace app;
  return schemas_of<VerifyRecord, BenchRecord, IntegrationRecord, AaRecord, Calibration, Headed<Assessment>,
                    LedgerEvent, WorkspaceRecord, ProvenanceFile, PromotionRecord, Headed<LedgerHealth>,
                    Headed<LedgerRepair>, Headed<LedgerMerge>, Headed<LedgerStats>, Headed<RestoredKernel>,
                    ErrorRecord, EngineList, TargetList, InitRecord, VerifyChampions, HistoryRecord, DiffRecord,
                    DoctorRecord, LedgerShow, TourRecord, NewTargetRecord, TrainerCheckRecord, CaptureRecord, DeepProfileRecord, SuiteRecord,
                    trace::ImportRecord, trace::SummaryRecord, trace::ExportRecord, trace::TraceDiffRecord, ProfileRecord, TraceProfileRecord,
                    AutoReviewRecord, TraceReviewRecord, PlanRecord, WatchRecord, GeneratedText>();
}

TEST(schemas, files_are_what_the_record_types_say) {
  const bool update = std::getenv("KL_UPDATE_SCHEMAS") != nullptr;
  if (update) {
    ASSERT_TRUE(make_directories(kFolder).ok());
  }
  for (const auto& [name, schema] : all_schemas()) {
    const fs::path path = kFolder / (name + ".schema.json");
    if (update) {
      ASSERT_TRUE(write_file_atomic(path, dump_pretty(schema) + "\n").ok());
    }
    const auto text = read_file(path);
    ASSERT_TRUE(text.ok()) << text.error().what << "; KL_UPDATE_SCHEMAS=1 writes it";
    EXPECT_EQ(*text, dump_pretty(schema) + "\n") << path << "; KL_UPDATE_SCHEMAS=1 rewrites it";
  }
}

TEST(schemas, no_file_describes_a_record_that_is_gone) {
  const auto schemas = all_schemas();
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const std::string name = entry.path().stem().stem().string();
    EXPECT_TRUE(schemas.contains(name)) << entry.path();
  }
}

// A reader of records must be able to tell what each number is.
void expect_described(const Json& schema, const std::string& where) {
  if (!schema.is_object()) return;
  const auto properties = schema.value("properties", Json::object());
  for (const auto& [name, property] : properties.items()) {
    EXPECT_FALSE(property.value("description", "").empty()) << where << "." << name;
    expect_described(property, where + "." + name);
  }
  if (schema.contains("items")) expect_described(schema["items"], where + "[]");
}

TEST(schemas, every_field_has_a_description) {
  for (const auto& [name, schema] : all_schemas()) expect_described(schema, name);
}

}  // namespace
}  // namespace kl
