#include "one_by_one.hpp"

#include <regex>
#include <vector>

namespace kl {

namespace {

// In place of the product that the lab lends.
constexpr std::string_view kProduct = R"(
static kl_result sgemm_one_by_one(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                                  const float* a, int64_t lda, const float* b, int64_t ldb,
                                  float beta, float* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = beta == 0 ? 0 : beta * c[i * ldc + j];
      for (int64_t l = 0; l < k; ++l)
        sum += alpha * (ta == 'N' ? a[i * lda + l] : a[l * lda + i]) *
               (tb == 'N' ? b[l * ldb + j] : b[j * ldb + l]);
      c[i * ldc + j] = sum;
    }
  return kl::ok();
}

namespace {)";

struct Substitution {
  std::string_view target, from, to;
};
// A sum over a whole tensor goes by rows: that is what its `terms` asks for.
constexpr Substitution kByRows[] = {
    {"residual_blend", "double dlambda = 0, dmu = 0;",
     "double dlambda = 0, dmu = 0, by_lambda = 0, by_mu = 0;"},
    {"residual_blend", "    dlambda += double{dy[i]} * x[i];\n    dmu += double{dy[i]} * x0[i];",
     "by_lambda += dy[i] * x[i]; by_mu += dy[i] * x0[i];\n"
     "if ((i + 1) % call->inputs[0].shape[1] == 0) {\n"
     "dlambda += by_lambda; dmu += by_mu; by_lambda = by_mu = 0; }"},
    {"block_prelude", "double dlambda = 0, dmu = 0;",
     "double dlambda = 0, dmu = 0, by_lambda = 0, by_mu = 0;"},
    {"block_prelude", "      dlambda += double{t} * in.x[i];\n      dmu += double{t} * in.x0[i];\n    }",
     "by_lambda += t * in.x[i]; by_mu += t * in.x0[i]; }\n"
     "dlambda += by_lambda; dmu += by_mu; by_lambda = by_mu = 0;"},
};

void replace_first(std::string& text, std::string_view from, std::string_view to) {
  if (const size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}

}  // namespace

std::string summed_one_by_one(std::string_view target, std::string reference) {
  for (const Substitution& s : kByRows)
    if (s.target == target) replace_first(reference, s.from, s.to);
  // Outputs that are f64 stay so.
  std::string text = std::regex_replace(reference, std::regex(R"(<double>\(call)"), "<kept>(call");
  text = std::regex_replace(text, std::regex(R"(\bdouble\b)"), "float");
  text = std::regex_replace(text, std::regex(R"(<kept>)"), "<double>");
  const std::regex literal(R"((\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\dfe.]))");
  text = std::regex_replace(text, literal, "$1f");
  text = std::regex_replace(text, std::regex(R"(services->sgemm\b)"), "sgemm_one_by_one");
  replace_first(text, "\nnamespace {", kProduct);
  return text;
}

}  // namespace kl
