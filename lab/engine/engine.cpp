#include <lab/engine/engine.hpp>

#include <lab/core/near.hpp>

namespace kl {

Result<Engine*> find_engine(std::string_view name) {
  std::vector<std::string> names;
  for (Engine* engine : all_engines()) {
    if (engine->name() == name) return engine;
    names.emplace_back(engine->name());
  }
  return make_error(Status::usage, "unknown engine '" + std::string(name) + "'", suggestion(name, names));
}

Engine& default_engine() {
  for (const std::string_view preferred : {"cuda", "mlx"})
    if (auto engine = find_engine(preferred); engine.ok() && (*engine)->usable().ok()) return **engine;
  return **find_engine("cpu");
}

}  // namespace kl
