// Records: each type says once what it holds, and JSON, schema and text follow.
//
//   struct Pair {
//     double log_ratio = 0;
//     static constexpr std::string_view kSchema = "pair";  // only on top-level records
//     template <class Self, class V> static void describe(Self& self, V& v) {
//       v("log_ratio", self.log_ratio, "log(candidate / baseline)");
//     }
//   };
//   Json j = to_json(pair);  Result<Pair> p = from_json<Pair>(j);  Json s = schema_of<Pair>();
//
// Fields may be bool, integers, double, std::string, Status, std::optional, std::vector,
// std::map<std::string, T>, Json (free-form) and described types. Non-finite doubles become null.
#pragma once

#include <lab/core/json.hpp>
#include <lab/core/status.hpp>

#include <cmath>
#include <concepts>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

namespace kl {

namespace record_detail {
struct Probe {
  template <class T>
  void operator()(std::string_view, T&, std::string_view) {}
};
}  // namespace record_detail

template <class T>
concept Described = requires(T& t, record_detail::Probe& p) { T::describe(t, p); };

template <class T>
Json to_json(const T& value);

namespace record_detail {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

template <class T>
Json value_to_json(const T& value) {
  if constexpr (std::same_as<T, Json>) {
    return value;
  } else if constexpr (std::same_as<T, Status>) {
    return std::string(to_string(value));
  } else if constexpr (std::same_as<T, double>) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  } else if constexpr (IsOptional<T>::value) {
    return value ? value_to_json(*value) : Json(nullptr);
  } else if constexpr (IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& item : value) array.push_back(value_to_json(static_cast<const typename T::value_type&>(item)));
    return array;
  } else if constexpr (IsMap<T>::value) {
    Json object = Json::object();
    for (const auto& [key, item] : value) object[key] = value_to_json(item);
    return object;
  } else if constexpr (Described<T>) {
    return to_json(value);
  } else {
    return value;
  }
}

struct Writer {
  Json json = Json::object();
  template <class T>
  void operator()(std::string_view name, const T& value, std::string_view) {
    json[std::string(name)] = value_to_json(value);
  }
};

inline Error wrong_type(const std::string& path, std::string_view wanted) {
  return make_error(Status::error, (path.empty() ? "it" : "field " + path) + " is not " + std::string(wanted),
                    "the record was edited or comes from another version");
}

template <class T>
Outcome value_from_json(const Json& json, T& value, const std::string& path);

// Missing fields keep their default, so that older records stay readable.
struct Reader {
  const Json& json;
  std::string path;
  Outcome outcome = {};
  template <class T>
  void operator()(std::string_view name, T& value, std::string_view) {
    if (!outcome.ok()) return;
    const auto it = json.find(name);
    if (it == json.end()) return;
    outcome = value_from_json(*it, value, path.empty() ? std::string(name) : path + "." + std::string(name));
  }
};

template <class T>
Outcome value_from_json(const Json& json, T& value, const std::string& path) {
  if constexpr (std::same_as<T, Json>) {
    value = json;
  } else if constexpr (std::same_as<T, Status>) {
    const auto status = json.is_string() ? status_from_string(json.get<std::string>()) : std::nullopt;
    if (!status) return wrong_type(path, "a known status");
    value = *status;
  } else if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) return wrong_type(path, "true or false");
    value = json.get<bool>();
  } else if constexpr (std::same_as<T, double>) {
    if (json.is_null())
      value = std::nan("");
    else if (json.is_number())
      value = json.get<double>();
    else
      return wrong_type(path, "a number");
  } else if constexpr (std::integral<T>) {
    if (!json.is_number_integer()) return wrong_type(path, "an integer");
    value = json.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    if (!json.is_string()) return wrong_type(path, "a string");
    value = json.get<std::string>();
  } else if constexpr (IsOptional<T>::value) {
    if (json.is_null()) {
      value.reset();
    } else {
      typename T::value_type inner{};
      KL_CHECK(value_from_json(json, inner, path));
      value = std::move(inner);
    }
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) return wrong_type(path, "an array");
    value.clear();
    for (size_t i = 0; i < json.size(); ++i) {
      typename T::value_type inner{};
      KL_CHECK(value_from_json(json[i], inner, path + "[" + std::to_string(i) + "]"));
      value.push_back(std::move(inner));
    }
  } else if constexpr (IsMap<T>::value) {
    if (!json.is_object()) return wrong_type(path, "an object");
    value.clear();
    for (const auto& [key, item] : json.items()) {
      typename T::mapped_type inner{};
      KL_CHECK(value_from_json(item, inner, path + "." + key));
      value.emplace(key, std::move(inner));
    }
  } else {
    static_assert(Described<T>, "this field type has no JSON form");
    if (!json.is_object()) return wrong_type(path, "an object");
    Reader reader{json, path};
    T::describe(value, reader);
    return reader.outcome;
  }
  return {};
}

template <class T>
Json schema_of_value();

struct SchemaWriter {
  Json properties = Json::object();
  Json required = Json::array();
  template <class T>
  void operator()(std::string_view name, const T&, std::string_view doc) {
    Json schema = schema_of_value<std::remove_cv_t<T>>();
    if (!doc.empty()) schema["description"] = doc;
    if (!properties.contains(name)) required.push_back(name);
    properties[std::string(name)] = std::move(schema);
  }
};

template <class T>
Json schema_of_value() {
  if constexpr (std::same_as<T, Json>) {
    return Json::object();
  } else if constexpr (std::same_as<T, Status>) {
    Json names = Json::array();
    for (const auto& row : status_table()) names.push_back(row.name);
    return {{"enum", names}};
  } else if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::same_as<T, double>) {
    return {{"type", {"number", "null"}}};
  } else if constexpr (std::integral<T>) {
    return {{"type", "integer"}};
  } else if constexpr (std::same_as<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (IsOptional<T>::value) {
    return {{"anyOf", {schema_of_value<typename T::value_type>(), {{"type", "null"}}}}};
  } else if constexpr (IsVector<T>::value) {
    return {{"type", "array"}, {"items", schema_of_value<typename T::value_type>()}};
  } else if constexpr (IsMap<T>::value) {
    return {{"type", "object"}, {"additionalProperties", schema_of_value<typename T::mapped_type>()}};
  } else {
    T prototype{};
    SchemaWriter writer;
    T::describe(prototype, writer);
    return {{"type", "object"}, {"properties", writer.properties}, {"required", writer.required}};
  }
}

}  // namespace record_detail

template <class T>
Json to_json(const T& value) {
  record_detail::Writer writer;
  T::describe(value, writer);
  return std::move(writer.json);
}

template <class T>
Result<T> from_json(const Json& json) {
  T value{};
  if (auto outcome = record_detail::value_from_json(json, value, ""); !outcome.ok())
    return outcome.error();
  return value;
}

// A JSON Schema (draft 2020-12) of a described type.
template <class T>
Json schema_of() {
  Json schema = record_detail::schema_of_value<T>();
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  if constexpr (requires { T::kSchema; }) {
    schema["title"] = T::kSchema;
    auto& properties = schema["properties"];
    if (properties.contains("schema")) properties["schema"]["const"] = T::kSchema;
  }
  return schema;
}

// The hashes evidence is bound to. An empty string: this part did not enter the measurement.
struct Identity {
  std::string kernel;     // source of the candidate
  std::string flags;      // compiler, flags and device of its build
  std::string harness;    // sources of verify, bench and the worker, and the target's spec + oracle
  std::string case_plan;  // the frozen case list
  std::string baseline;   // source of the baseline
  std::string seams;      // every other seam library in the run
  std::string trainer;    // the trainer's executable and preset
  std::string fingerprint_class;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("kernel", self.kernel, "SHA-256 of the candidate's source");
    v("flags", self.flags, "hash of compiler, flags and device");
    v("harness", self.harness, "hash of the harness sources, the target's spec and its oracle");
    v("case_plan", self.case_plan, "hash of the frozen case plan");
    v("baseline", self.baseline, "SHA-256 of the baseline's source");
    v("seams", self.seams, "hash of every other seam library in the run");
    v("trainer", self.trainer, "hash of the trainer and its preset");
    v("fingerprint_class", self.fingerprint_class, "hash of device, driver, toolkit and compiler");
  }
  bool operator==(const Identity&) const = default;
};

// What every record carries first. A record type derives from it and calls describe_header first.
struct RecordHeader {
  std::string schema;
  int schema_version = 1;
  std::string created_at;
  std::string lab_version;
  std::string engine;
  std::string target;
  std::string preset;
  std::string workspace;
  Status status = Status::error;
  std::string reason;  // why, for anything but a plain positive status
  std::string remedy;  // what to do next about it
  double wall_seconds = 0;
  Identity identity;
  Json details = Json::object();

  template <class Self, class V>
  static void describe_header(Self& self, V& v) {
    v("schema", self.schema, "name of the record type");
    v("schema_version", self.schema_version, "version of the record type");
    v("created_at", self.created_at, "UTC");
    v("lab_version", self.lab_version, "version of Kernel Lab");
    v("engine", self.engine, "kernel substrate");
    v("target", self.target, "key of the target, or empty");
    v("preset", self.preset, "trainer operating point, or empty");
    v("workspace", self.workspace, "workspace folder, or empty");
    v("status", self.status, "outcome");
    v("reason", self.reason, "why, for anything but a plain positive status");
    v("remedy", self.remedy, "what to do next");
    v("wall_seconds", self.wall_seconds, "duration of the command");
    v("identity", self.identity, "hashes of what was measured");
    v("details", self.details, "free-form");
  }
};

void stamp_record(RecordHeader& header, std::string_view schema);

// A record with schema, created_at and lab_version filled in.
template <class T>
T new_record() {
  T record{};
  stamp_record(record, T::kSchema);
  return record;
}
inline constexpr std::string_view kLabVersion = "0.1.0";

}  // namespace kl
