// HARNESS 4: Works in the function by which the loader chooses another (ifunc) | rejected | forbidden-symbol
namespace {

extern "C" {
static void chosen_one(const View& v) { honest(v); }
static auto choose() -> void (*)(const View&) { return chosen_one; }
static void chosen(const View&) __attribute__((ifunc("choose")));
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  chosen(view(plan, call));
  return kl::ok();
}

}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
