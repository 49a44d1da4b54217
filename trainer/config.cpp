#include <trainer/config.hpp>

#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/near.hpp>
#include <trainer/regions.hpp>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <tuple>
#include <toml++/toml.h>

namespace kl::trainer {
namespace {

Outcome check_keys(const Json& values, const std::string& source) {
  const Json known = to_json(Config{});
  std::vector<std::string> names;
  for (const auto& [key, unused] : known.items()) names.push_back(key);
  for (const auto& [key, unused] : values.items())
    if (!known.contains(key))
      return make_error(Status::usage, "unknown preset field '" + key + "' in " + source,
                        suggestion(key, names));
  return {};
}

// Numbers of the other kind are accepted where nothing is lost: 1 for 1.0, 64.0 for 64.
Json as_type_of(const Json& field, const Json& value) {
  if (field.is_number_float() && value.is_number()) return value.get<double>();
  if (field.is_number_integer() && value.is_number_float()) {
    const double number = value.get<double>();
    if (std::floor(number) == number && std::fabs(number) < 9e15) return static_cast<int64_t>(number);
  }
  return value;
}

}  // namespace

int64_t Config::window(int64_t layer) const {
  const bool full = layer == layers - 1 ||
                    window_pattern[static_cast<size_t>(layer) % window_pattern.size()] == 'L';
  return full ? sequence : sequence / 2;
}

int64_t Config::parameter_count() const {
  int64_t count = 2 * vocab * width + 2 * layers;
  for (int64_t i = 0; i < layers; ++i) {
    count += 2 * width * width + 2 * kv_width() * width + 8 * width * width;
    if (has_value_embedding(i)) count += vocab * kv_width() + kv() * 32;
  }
  return count;
}

double Config::flops_per_token() const {
  int64_t count = parameter_count() - vocab * width - 2 * layers;
  double attending = 0;
  for (int64_t i = 0; i < layers; ++i) {
    if (has_value_embedding(i)) count -= vocab * kv_width();
    attending += 12.0 * static_cast<double>(width * std::min(window(i), sequence));
  }
  return 6.0 * static_cast<double>(count) + attending;
}

Outcome validate(const Config& c) {
  const auto wrong = [](const std::string& what, const std::string& remedy) {
    return make_error(Status::usage, what, remedy);
  };
  const std::pair<const char*, int64_t> positive[] = {
      {"vocab", c.vocab},   {"sequence", c.sequence}, {"layers", c.layers},
      {"width", c.width},   {"head_dim", c.head_dim}, {"rows", c.rows},
      {"steps", c.steps},   {"accumulation", c.accumulation},
      {"tokenizer_bytes", c.tokenizer_bytes}, {"eval_tokens", c.eval_tokens}};
  for (const auto& [name, value] : positive)
    if (value < 1)
      return wrong(std::string(name) + " is " + std::to_string(value), "give a positive number");
  if (c.vocab < 320 || c.vocab > 65535)
    return wrong("vocab is " + std::to_string(c.vocab),
                 "give 320 to 65535: byte fallback needs 256 pieces, tokens are 16 bits");
  if (c.head_dim % 2 != 0 || c.width % c.head_dim != 0)
    return wrong("width " + std::to_string(c.width) + " is not a multiple of an even head_dim " +
                     std::to_string(c.head_dim),
                 "choose width as heads times head_dim");
  if (c.width < 32) return wrong("width is " + std::to_string(c.width), "the gates read 32 columns");
  if (c.kv_heads < 0 || c.heads() % c.kv() != 0)
    return wrong("kv_heads " + std::to_string(c.kv_heads) + " does not divide " +
                     std::to_string(c.heads()) + " heads",
                 "choose a divisor, or 0 for as many as heads");
  if (c.window_pattern.empty() ||
      c.window_pattern.find_first_not_of("SL") != std::string::npos)
    return wrong("window_pattern is '" + c.window_pattern + "'", "use the letters S and L");
  if (c.device != "cpu" && c.device != "cuda")
    return wrong("device is '" + c.device + "'", "use cpu or cuda");
  if (c.loss_rows != 0 && (c.device == "cpu" || c.loss_rows < 0 || c.tokens() % c.loss_rows != 0))
    return wrong("loss_rows is " + std::to_string(c.loss_rows) + " for " + std::to_string(c.tokens()) +
                     " tokens on " + c.device,
                 "on cuda give a divisor of rows * sequence; elsewhere 0");
  if (c.device == "cuda")
    for (const auto& [name, value] : positive)
      if ((std::string_view(name) == "vocab" || std::string_view(name) == "sequence" ||
           std::string_view(name) == "width" || std::string_view(name) == "head_dim") && value % 8 != 0)
        return wrong(std::string(name) + " is " + std::to_string(value),
                     "on cuda give a multiple of 8: matrix products load 16 bytes at a time");
  if (std::max(c.loss_chunk() * c.vocab, c.tokens() * 4 * c.width) > INT32_MAX)
    return wrong("rows * sequence * vocab does not fit 31 bits", "use fewer rows, more accumulation");
  if (!(c.softcap > 0) || !(c.eps > 0)) return wrong("softcap and eps must be positive", "mend them");
  if (!(c.decay_fraction >= 0 && c.decay_fraction <= 1))
    return wrong("decay_fraction is not in [0, 1]", "use 0.5");
  if (!(c.held_out_percent > 0 && c.held_out_percent < 100))
    return wrong("held_out_percent is not in (0, 100)", "use 1");
  if (c.threads < 0 || c.threads > 1024) return wrong("threads is " + std::to_string(c.threads), "use 0");
  if (c.matrix_optimiser != "adamw" && c.matrix_optimiser != "muon")
    return wrong("matrix_optimiser is '" + c.matrix_optimiser + "'", "use muon or adamw");
  if (c.device == "cuda" && c.matrix_optimiser != "adamw")
    return wrong("matrix_optimiser is 'muon' on cuda", "the CUDA step knows adamw only");
  return check_regions(c);
}

std::vector<fs::path> Presets::search_path() {
  std::vector<fs::path> path;
  std::error_code code;
  if (fs::is_directory("trainer/presets", code)) path.push_back(fs::absolute("trainer/presets", code));
  path.push_back(Installation::find().presets);
  return path;
}

Result<std::vector<Config>> Presets::all() {
  std::vector<Config> presets;
  std::set<std::string> seen;
  for (const auto& folder : search_path()) {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder, code)) {
      if (entry.path().extension() != ".toml" || !seen.insert(entry.path().stem()).second) continue;
      KL_TRY(Config config, read_preset(entry.path()));
      presets.push_back(std::move(config));
    }
  }
  if (presets.empty())
    return make_error(Status::error, "no presets in " + search_path().back().string(),
                      "install Kernel Lab whole, or set KERNEL_LAB_HOME to its folder");
  std::sort(presets.begin(), presets.end(), [](const Config& a, const Config& b) {
    return std::tie(a.family, a.strength, a.name) < std::tie(b.family, b.strength, b.name);
  });
  return presets;
}

Result<Config> Presets::find(std::string_view name) {
  KL_TRY(std::vector<Config> presets, all());
  std::vector<std::string> names;
  for (const Config& preset : presets) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  return make_error(Status::usage, "unknown preset '" + std::string(name) + "'",
                    suggestion(name, names));
}

Result<Config> read_preset(const fs::path& file) {
  KL_TRY(std::string text, read_file(file));
  Json values;
  try {
    const toml::table table = toml::parse(text, file.string());
    std::ostringstream json;
    json << toml::json_formatter(table);
    KL_TRY(values, parse_json(json.str(), file.string()));
  } catch (const toml::parse_error& error) {
    return make_error(Status::usage,
                      file.string() + ":" + std::to_string(error.source().begin.line) + ": " +
                          std::string(error.description()),
                      "mend the preset");
  }
  values["name"] = file.stem().string();
  Config config;
  KL_CHECK(apply_overrides(config, values));
  KL_CHECK(validate(config));
  return config;
}

Outcome apply_overrides(Config& config, const Json& overrides) {
  if (!overrides.is_object())
    return make_error(Status::usage, "overrides are not an object", "give {\"field\": value}");
  KL_CHECK(check_keys(overrides, "the preset"));
  Json values = to_json(config);
  for (const auto& [key, value] : overrides.items()) values[key] = as_type_of(values[key], value);
  auto parsed = from_json<Config>(values);
  if (!parsed.ok()) return make_error(Status::usage, parsed.error().what, "give a value of that type");
  config = std::move(parsed).value();
  return {};
}

Outcome apply_setting(Config& config, std::string_view setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos)
    return make_error(Status::usage, "'" + std::string(setting) + "' is not key=value",
                      "write --set rows=8");
  const std::string key(setting.substr(0, equals)), text(setting.substr(equals + 1));
  const Json current = to_json(config);
  Json value = text;
  if (current.contains(key) && current[key].is_number()) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
      return make_error(Status::usage, key + " is '" + text + "', not a number", "give a number");
    value = number;
  }
  return apply_overrides(config, {{key, value}});
}

}  // namespace kl::trainer
