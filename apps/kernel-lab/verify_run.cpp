#include "verify_run.hpp"

#include "session.hpp"

namespace kl::app {

VerifyRecord run_verify(const Context& context, const VerifyRun& run) {
  VerifyRequest request;
  request.engine = context.engine;
  request.target = &run.target;
  request.kernel = run.kernel;
  request.champion = run.champion;
  request.trainer_shapes = run.shapes;
  request.preset = run.preset;
  request.full = run.full;
  request.sanitize = run.sanitize;
  request.seed = run.seed;
  request.captured = run.captured;
  request.progress = context.progress;
  VerifyRecord record = verify(request);
  record.workspace = run.workspace;
  return record;
}

Outcome record_verify(const Context& context, const VerifyRecord& record, const fs::path& kernel) {
  KL_TRY(const std::string source, read_file(kernel));
  KL_TRY(const std::string hash, context.objects().put(source, kernel.extension().string()));
  KL_TRY(const LedgerEvent event,
         record_event(context, "verify", record, "worst_bound_fraction",
                      record.elements_checked > 0 ? std::optional(record.worst_bound_fraction) : std::nullopt,
                      {{"record", to_json(record)}, {"object", hash}}));
  return {};
}

}  // namespace kl::app
