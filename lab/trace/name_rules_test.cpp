#include <lab/trace/attribution.hpp>
#include <lab/trace/kernel_name.hpp>
#include <lab/trace/name_rules.hpp>
#include <lab/trace/operator_rules.hpp>
#include <lab/trace/summary.hpp>
#include <lab/trace/test_model.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace kl::trace {
namespace {

std::string family(std::string_view name) { return std::string(attribute_name(name).family); }

TEST(kernel_name, tools_spell_one_kernel_alike) {
  const auto same = [](std::string_view a, std::string_view b) { EXPECT_EQ(normalise_kernel_name(a), normalise_kernel_name(b)); };
  same("void at::native::vectorized_elementwise_kernel<(int)4, at::native::<unnamed>::f(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::[lambda(float) (instance 1)], "
       "std::array<char *, (unsigned long)2>>(int, T2, T3)",
       "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::f(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}, "
       "std::array<char*, 2ul> >(int, at::native::g, std::array<char*, 2ul>)");
  same("k<(bool)1, (bool)0>(int)", "void k<true, false>(int)");
  same("cub::CUB_200200_700_NS::DeviceScan<int>(int*)", "cub::DeviceScan<int>");
  same("f(int) [clone .isra.0]", "f(int)");
  same("_ZN2at6native4copyIfEEvPT_.kd", "void at::native::copy<float>(float*) [clone .kd]");
  same("g[abi:cxx11]<const float>(int)", "g<float const>(int)");
}

TEST(kernel_name, mangled_names_that_the_library_cannot_read_keep_their_identifiers) {
  EXPECT_EQ(normalise_kernel_name("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb1EEEvPT0_PT_"),
            "aiter::add_rmsnorm_quant_kernel<__bf16, __bf16, 64, 8, false, true>");
  std::string deep = "_Z1kI";  // each part refers to the one before it twice: its text would double every time
  for (int i = 0; i < 300; ++i) deep += "St4pairIS_S_E";
  EXPECT_LT(normalise_kernel_name(deep + "Evv").size(), 100'000u);
}

TEST(kernel_name, any_bytes_are_read_in_linear_time) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string piece : {"(", ")", "<", ">", "[", "{lambda(", "'lambda", "_ZN", "_ZNI", "_Z9I", "a::", "a<b,", "\xff", "_ZNSt4", "(int)", "operator", ".kd", "DF16b", "1.", "gemm", "X1a"}) {
    std::string name;
    while (name.size() < 100'000) name += piece;
    for (const std::string& text : {name, "_Z" + name, name + "kernel"}) {
      const std::string normalised = normalise_kernel_name(text);
      EXPECT_LT(normalised.size(), 4 * text.size()) << piece;
      rule_of_kernel(normalised);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// One name at least for every rule: names of libraries, and those that are easily taken for something else.
const std::vector<std::pair<std::string, std::string>>& known() {
  static const std::vector<std::pair<std::string, std::string>> names = {
      // TRACES: what public classifiers get wrong.
      {"Cijk_Ailk_Bjlk_SB_MT64x16x16_NLCA1_ONLL1_PGR2", "matmul"},
      {"void fbgemm_gpu::permute_1D_data_kernel<int>(int)", "embedding"},
      {"nvjet_hsh_128x256_64x4_1x2_h_bz_NNT", "matmul"},
      {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective"},
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "collective"},
      {"sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize64x64x64", "conv"},
      {"triton_poi_fused__scaled_dot_product_flash_attention_cat_transpose_4", "data_movement"},
      {"triton_red_fused__to_copy_rms_norm_2", "norm"},
      {"kernel", "unknown"}, {"Kernel2", "unknown"}, {"triton__0d1d2d", "unknown"}, {"fusion_12", "unknown"}, {"", "unknown"},
      // Compilers.
      {"triton_tem_fused_flex_attention_3", "flash_attention"}, {"triton_tem_fused_convolution_1", "conv"}, {"triton_tem_fused_addmm_7", "matmul"},
      {"triton_for_fused_0", "optimizer"}, {"triton_poi_fused__to_copy_div_empty_like_2", "quantization"}, {"triton_per_fused_nll_loss_forward_1", "loss"},
      {"triton_poi_fused_add_cat_mul_neg_slice_5", "rope"}, {"triton_red_fused_div_expand_mul_pow_sum_9", "norm"}, {"triton_red_fused__log_softmax_1", "softmax_logsoftmax"},
      {"triton_per_fused__softmax_add_3", "softmax"}, {"triton_poi_fused_mul_silu_2", "fused_mlp_act"}, {"triton_poi_fused_max_pool2d_with_indices_4", "pooling"},
      {"triton_red_fused_cumsum_1", "sort_scan"}, {"triton_poi_fused_embedding_0", "embedding"}, {"triton_poi_fused_arange_0", "index_helper"},
      {"triton_red_fused_sum_3", "reduction"}, {"triton_poi_fused_add_mul_0", "elementwise"},
      {"loop_fusion_3", "elementwise"}, {"loop_transpose_fusion", "data_movement"}, {"input_reduce_fusion_92", "reduction"}, {"gemm_fusion_dot_265", "matmul"},
      // PyTorch.
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)", "data_movement"},
      {"void at::native::index_elementwise_kernel<128, 4, at::native::index_kernel_impl<at::native::OpaqueType<2> >(at::TensorIteratorBase&)::{lambda(char*)#1}>(long)", "data_movement"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda(float)#1}>(int)", "fused_mlp_act"},
      {"void at::native::elementwise_kernel<128, 2, at::native::GroupNormKernelImplInternal<float>(int)::{lambda(float)#1}>(int)", "norm"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::smooth_l1_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}>(int)", "loss"},
      {"void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(int)::{lambda(long)#1}>(int)", "index_helper"},
      {"void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::other(int)::{lambda(long)#1}>(int)", "index_helper"},
      {"void at::native::elementwise_kernel<128, 4, at::native::fake_quantize_per_tensor(int)::{lambda(float)#1}>(int)", "quantization"},
      {"void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::x<1> >(int)", "data_movement"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(int)", "elementwise"},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, FusedAdamMathFunctor<float, 4> >(int)", "optimizer"},
      {"void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", "embedding"},
      {"void at::native::(anonymous namespace)::indexSelectSmallIndex<float, long>(int)", "embedding"},
      {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)", "softmax_logsoftmax"},
      {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, true>(float*)", "softmax"},  // masked, not logarithmic
      {"void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)1>(T2 *)", "softmax"},
      {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*)", "softmax_logsoftmax"},
      {"void at::native::(anonymous namespace)::cunn_SoftMaxForwardSmem<4, float, float, float, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*)", "softmax"},
      {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)", "loss"},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float> > >(int)", "reduction"},
      {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)", "sort_scan"},
      {"void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*)", "sort_scan"},
      {"void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__merge_sort::MergeAgent<int*> >(int)", "sort_scan"},
      {"void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__reduce::ReduceAgent<int*> >(int)", "reduction"},
      {"void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<X> >(int)", "elementwise"},
      {"void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__uninitialized_fill::functor<X> >(int)", "data_movement"},
      {"void arange_kernel<long>(long*)", "index_helper"},
      {"void at::native::(anonymous namespace)::max_pool_forward_nhwc<float>(float*)", "pooling"},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4>(float*)", "data_movement"},
      // Products, convolutions, attention of the vendors.
      {"ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "matmul"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)", "matmul"},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_nn_align8>(int)", "matmul"},
      {"void cutlass::Kernel2<cutlass_tensorop_f16_s16816fprop_optimized_f16_256x128_32x3_nhwc>(int)", "conv"},
      {"sm90_fp8_gemm_1d2d_impl", "matmul"}, {"void mul_mat_q<(ggml_type)12, 64, false>(char const*)", "matmul"},
      {"void gptq_marlin::Marlin<__half>(int)", "matmul"},
      {"_ZN2ck23kernel_gemm_xdl_cshuffle_v3IDF16bEEvv", "matmul"},
      {"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)", "conv"}, {"cudnn_infer_some_engine_v1", "conv"},
      {"void cudnn::ops::nchwToNhwcKernel<float, float>(int)", "data_movement"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0", "flash_attention"},
      {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<int>::Params)", "flash_attention"},
      {"void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::C<128>, cutlass::gemm::X> > >(int)", "flash_attention"},
      {"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<1> >(int)", "flash_attention"},
      {"_attn_fwd", "flash_attention"}, {"void vllm::paged_attention_v2_kernel<__half, 128>(float*)", "flash_attention"},
      // Serving and training libraries.
      {"void vllm::reshape_and_cache_flash_kernel<__half>(int)", "data_movement"},
      {"void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "rope"}, {"_triton_rope", "rope"},
      {"void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)", "norm"}, {"_rms_norm_forward_kernel", "norm"},
      {"void transformer_engine::normalization::ln_fwd_tuned_kernel<X>(int)", "norm"},
      {"void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<ck_tile::Pipeline> >(int)", "norm"},
      {"void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(int)", "fused_mlp"},
      {"gelu_forward_kernel2(float*)", "fused_mlp_act"}, {"liger_cross_entropy_kernel", "loss"}, {"fused_classifier_kernel5", "loss"},
      {"void vllm::moe::topkGatingSoftmax<8, 64>(float const*)", "moe_routing"}, {"void ck_tile::kentry<1, ck_tile::MoeSortingKernel<X> >(int)", "moe_routing"},
      {"fused_moe_kernel", "fused_mlp"}, {"bmm_Bfloat16_E2m1E2m1_Fp32_swiGlu_dynBatch_sm100f", "fused_mlp"}, {"void tensorrt_llm::doActivationKernel<X>(int)", "fused_mlp_act"},
      {"void vllm::scaled_fp8_quant_kernel<float>(int)", "quantization"}, {"kDequantizeBlockwise", "quantization"},
      {"void fbgemm_gpu::_FP8_to_float_cuda_kernel<float>(int)", "quantization"},
      {"void split_embedding_codegen_forward_unweighted_kernel<float>(int)", "embedding"},
      {"adamw_kernel3(float*)", "optimizer"}, {"global_norm_squared_kernel(float*)", "reduction"}, {"residual_forward_kernel(float*)", "elementwise"},
      {"void mscclpp::allreduceKernel<float>(int)", "collective"}, {"void vllm::cross_device_reduce_1stage<__half, 8>(int)", "collective"},
      {"_selective_scan_update_kernel", "unknown"}, {"causal_conv1d_fwd_kernel", "conv"},
  };
  return names;
}

TEST(name_rules, name_what_a_kernel_does) {
  for (const auto& [name, wanted] : known()) {
    const Attributed to = attribute_name(name);
    EXPECT_EQ(to.family, wanted) << name << " by " << rule_text(to);
    EXPECT_EQ(to.rule == Rule::none, to.family == kUnknownFamily);
  }
}

TEST(name_rules, each_is_used_and_has_its_own_id) {
  std::set<std::string> used, ids;
  for (const auto& [name, wanted] : known()) used.emplace(attribute_name(name).detail);
  for (const NameRule& rule : name_rules()) {
    EXPECT_TRUE(ids.emplace(rule.id).second) << rule.id;
    EXPECT_TRUE(used.contains(std::string(rule.id))) << rule.id;
    EXPECT_TRUE(rule.confidence > 0 && rule.confidence < 1) << rule.id;
  }
}

TEST(operator_rules, know_an_operator_backward_and_of_each_library) {
  const auto of = [](std::string_view name) {
    const OperatorRule* rule = rule_of_operator(name);
    return std::string(rule ? rule->family : "");
  };
  EXPECT_EQ(of("aten::mm"), "matmul");
  EXPECT_EQ(of("aten::_scaled_dot_product_flash_attention_backward"), "flash_attention");
  EXPECT_EQ(of("aten::cudnn_convolution"), "conv");
  EXPECT_EQ(of("aten::native_layer_norm_backward"), "norm");
  EXPECT_EQ(of("aten::_softmax_backward_data"), "softmax");
  EXPECT_EQ(of("aten::copy_"), "data_movement");
  EXPECT_EQ(of("aten::_foreach_add_"), "optimizer");
  EXPECT_EQ(of("nn.Module: Linear_0"), "");
  EXPECT_EQ(of("aten::_fft_r2c"), "");
}

TEST(attribution, asks_the_range_then_the_operator_then_the_name) {
  ModelBuilder b;
  b.device(0, "a");
  b.range(RangeKind::seam, "softmax/forward", 0, 20).call("cudaLaunchKernel", 10, 12, 1);
  b.kernel(100, 110, 0, 7, 1, "ampere_sgemm_64x64_nn").op = b.model.names.id("aten::convolution");
  b.kernel(110, 130, 0, 7, 2, "ampere_sgemm_64x64_nn").op = b.model.names.id("aten::convolution");
  b.kernel(130, 160, 0, 7, 3, "ampere_sgemm_64x64_nn").op = b.model.names.id("mine::something");
  b.kernel(160, 200, 0, 7, 4, "void k<(int)3>(int)");
  const Summary s = summarise(b.model, true);
  ASSERT_EQ(s.kernels.size(), 4u);  // the longest first
  const auto row = [&](size_t i) { return s.kernels[i].family + " by " + s.kernels[i].rule; };
  EXPECT_EQ(row(0), "unknown by none");
  EXPECT_EQ(s.kernels[0].normalised, "k<3>");
  EXPECT_EQ(row(1), "matmul by name:product-library");
  EXPECT_EQ(row(2), "conv by operator:convolution");
  EXPECT_EQ(row(3), "softmax by range");
  EXPECT_EQ(s.kernels[1].confidence, 0.98);
  EXPECT_DOUBLE_EQ(s.unknown_share, 0.4);
}

TEST(families, have_targets) {
  EXPECT_EQ(targets_of_family("norm"), (std::vector<std::string_view>{"layernorm", "qk_rmsnorm", "residual_rmsnorm", "rmsnorm"}));
  EXPECT_EQ(targets_of_family("softmax_logsoftmax"), (std::vector<std::string_view>{"cross_entropy_prelude", "softmax"}));
  EXPECT_TRUE(targets_of_family("conv").empty());
  EXPECT_TRUE(targets_of_family(kUnknownFamily).empty());
}

struct Sample {
  std::string family, name;
  double us = 0;
};
std::vector<Sample> samples(const std::filesystem::path& file) {
  std::vector<Sample> list;
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    std::istringstream cells(line);
    std::vector<std::string> row(7);
    for (std::string& cell : row) std::getline(cells, cell, '\t');
    list.push_back({row[0], row[6], std::strtod(row[3].c_str(), nullptr)});
  }
  return list;
}

TEST(name_rules, know_the_samples_by_time_and_quote_none) {
  const char* folder = std::getenv("KERNEL_LAB_SAMPLES");
  if (folder == nullptr) GTEST_SKIP() << "KERNEL_LAB_SAMPLES is not set: set it to the folder that holds kernel_names.tsv";
  std::map<std::string, std::pair<double, double>> shares;  // names, time
  double names = 0, time = 0;
  std::set<std::string> words;  // that may be no whole name
  for (const NameRule& rule : name_rules()) {
    std::string text(rule.when);
    std::replace_if(text.begin(), text.end(), [](char c) { return std::string_view("|&!()*").find(c) != std::string_view::npos; }, ' ');
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words.insert(word);
  }
  for (const Sample& sample : samples(std::filesystem::path(folder) / "kernel_names.tsv")) {
    const std::string wanted = sample.family.starts_with("unknown") ? "unknown" : sample.family, got = family(sample.name);
    auto& [count, us] = shares[got == wanted ? "right" : got == "unknown" ? "unknown" : "wrong"];
    count += 1, us += sample.us;
    names += 1, time += sample.us;
    if (got != wanted) std::printf("%s instead of %s: %.200s\n", got.c_str(), wanted.c_str(), sample.name.c_str());
    EXPECT_FALSE(words.contains(NamePart(normalise_kernel_name(sample.name), 0).folded())) << sample.name;
  }
  ASSERT_GT(names, 600);
  for (const auto& [kind, share] : shares) std::printf("%s: %.2f %% of names, %.3f %% of time\n", kind.c_str(), 100 * share.first / names, 100 * share.second / time);
  EXPECT_GE(shares["right"].second, 0.97 * time);
  EXPECT_LE(shares["wrong"].second, 0.01 * time);
}

}  // namespace
}  // namespace kl::trace
