#include <lab/trace/name_rules.hpp>

#include <lab/trace/kernel_name.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace kl::trace {
namespace {

// clang-format off
constexpr std::array kRules = {
  // Fused by a compiler. The list names producers that ran as kernels of their own, too (addmm, the attention): only what can be
  // computed in place counts, the rarest first, because everything else is fused into it.
  NameRule{"fused-template-attention", "flash_attention", .9, Where::fused, "tem & *attention*"},
  NameRule{"fused-template-conv", "conv", .9, Where::fused, "tem & convolution*"},
  NameRule{"fused-template-product", "matmul", .85, Where::fused, "tem"},
  NameRule{"fused-foreach", "optimizer", .6, Where::fused, "for | addcdiv | addcmul & sqrt & div | adam* | adagrad*"},
  NameRule{"fused-quantise", "quantization", .6, Where::fused, "div & emptylike | abs & amax | amax & clamp | *quantize* | fp8"},
  NameRule{"fused-loss", "loss", .8, Where::fused, "nllloss* | *crossentropy* | mseloss* | smoothl1loss* | huberloss* | kldiv* | l1loss*"},
  NameRule{"fused-rotate", "rope", .6, Where::fused, "neg & stack | neg & cat & mul | cos & sin & !exp | *rotary* | rope | polar | viewascomplex"},
  NameRule{"fused-norm", "norm", .75, Where::fused, "*layernorm | *groupnorm | *batchnorm | *rmsnorm | *instancenorm | rsqrt | mean & pow | varmean"},
  NameRule{"fused-norm-backward", "norm", .5, Where::fused, "(red | per) & expand & div & pow & sum"},
  NameRule{"fused-log-softmax", "softmax_logsoftmax", .6, Where::fused, "logsoftmax* | logsumexp"},
  NameRule{"fused-softmax", "softmax", .75, Where::fused, "*softmax* | amax & exp & sum | amax & exp & sub"},
  NameRule{"fused-activation", "fused_mlp_act", .75, Where::fused, "*gelu* | *silu* | *swiglu* | *geglu* | erf | relu & addmm | relu & mm | sigmoid & mul & mm"},
  NameRule{"fused-pooling", "pooling", .8, Where::fused, "*pool1d* | *pool2d* | *pool3d*"},
  NameRule{"fused-scan", "sort_scan", .7, Where::fused, "sort | argsort | topk | cumsum | cumprod"},
  NameRule{"fused-embedding", "embedding", .75, Where::fused, "embedding*"},
  NameRule{"fused-arange", "index_helper", .6, Where::fused, "arange & !add & !mul & !sub & !where & !eq & !ge & !gt & !le & !lt | iota"},
  NameRule{"fused-movement", "data_movement", .75, Where::fused, "@moves"},
  NameRule{"fused-reduction", "reduction", .65, Where::fused, "red | per"},
  NameRule{"fused-pointwise", "elementwise", .7, Where::fused, "poi | fused"},

  // What a carrier does is what its functor does.
  NameRule{"functor-copy", "data_movement", .98, Where::functor, "*copykernel* | *copyfunctor* | fillfunctor | fillkernel* & !masked* | oprepeat | opdup"},
  NameRule{"functor-index", "data_movement", .95, Where::functor, "index | indexkernel* | indexput* | indexcopy* | indexfill* | gather* | *scatter* | scattergather* | takekernel* | putkernel* | flipkernel* | rollkernel*"},
  NameRule{"functor-activation", "fused_mlp_act", .95, Where::functor, "gelu* | silu* | glu | glukernel* | *siluandmul* | opsilu* | opgelu* | swiglu* | geglu* | *silukernel* | *gelukernel*"},
  NameRule{"functor-norm", "norm", .95, Where::functor, "*batchnorm* | *groupnorm* | *layernorm* | *rmsnorm*"},
  NameRule{"functor-loss", "loss", .95, Where::functor, "!*backward* & (mse | smoothl1* | huber* | binarycrossentropy* | kldiv* | *nllloss*)"},
  NameRule{"functor-arange", "index_helper", .95, Where::functor, "arange* | linspace* | rangecudaout* | eye | triuindices* | trilindices*"},
  NameRule{"functor-quantise", "quantization", .9, Where::functor, "*fakequant* | quantize* | dequantize* | *hfp8* | *tofp8* | *fp8to*"},
  NameRule{"carrier-index", "data_movement", .85, Where::carrier, "indexelementwisekernel | scattergatherelementwisekernel*"},
  NameRule{"carrier-arange", "index_helper", .8, Where::carrier, "elementwisekernelwithindex"},
  NameRule{"carrier-elementwise", "elementwise", .9, Where::carrier,
    "elementwisekernel* | kernelpointwiseapply* | distributionelementwise* | distributionnullary* | unaryopkernel | unarygatedopkernel | kbinbcast* | binbcast*"},

  NameRule{"collective", "collective", .98, Where::name,
    "nccl* | rccl* | msccl* | nvshmem* | rocshmem* | *allreduce* | *allgather* | *reducescatter* | *alltoall* | crossdevicereduce* | deepep | multimem* | userbuffers*"},
  NameRule{"multi-tensor", "optimizer", .85, Where::name, "multitensorapply* | multitensor*"},

  // Recommendation models: fbgemm is a library for embeddings, whatever its name.
  NameRule{"fbgemm-quantise", "quantization", .9, Where::name, "fbgemm* & *qparam* | fbgemm* & *quant* | fbgemm* & *fp8* | fbgemm* & *fused8bit*"},
  NameRule{"embedding", "embedding", .95, Where::name,
    "*embedding* & !*rotary* & !*rope* & !timestep* | *embs* | *embeddingbag* | recat* | boundscheckindices* | indexselect* | indexfunc* | krnpartial* | computegradweight* | "
    "sumandscatter* | computenumofpartialsegments* | *getrows* | encoderforward* | encoderbackward* | wtebackward* | wpebackward* | linearizecacheindices* | lxucache* | lrucache* | lfucache*"},
  NameRule{"embedding-gather", "embedding", .6, Where::name, "vectorizedgather*"},
  NameRule{"fbgemm", "embedding", .8, Where::name, "fbgemm* & !gemm"},

  NameRule{"cache-write", "data_movement", .95, Where::name,
    "reshapeandcache* | *concatandcache* | copyblocks* | swapblocks* | (store | copy | write | append | update | set | save | gather) & (*kvcache* | kvbuffer* | cache | kv)"},
  NameRule{"layout", "data_movement", .95, Where::name, "*nchwtonhwc* | *nhwctonchw* | *nchw2nhwc* | *nhwc2nchw* | batchedtranspose* | *tensortransform*"},

  // Mixtures of experts: which token goes where, then the experts' products.
  NameRule{"moe-activation", "fused_mlp_act", .8, Where::name, "doactivation* | moe & *act* & mul"},
  NameRule{"moe-routing", "moe_routing", .9, Where::name,
    "routing* | *topkgating* | *moealign* | *moerouting* | expandinputrows* | *groupedtopk* | moefusedgate* | moesum* | *moesorting* | *bitmatrix* | exptdata* | *finalizematmul* | "
    "*finalizescatter* | topk & (forward | backward) | *expert* & (count* | offset* | sort* | map | token* | first) | "
    "moe & (align* | sort* | topk* | gate | gating | permute* | unpermute* | scatter | gather | sum | finalize* | expand* | count* | prefix* | histogram* | offset* | token*)"},
  NameRule{"moe-routing-inside", "moe_routing", .9, Where::any, "moesorting* | moe & routing*"},
  NameRule{"moe-product", "fused_mlp", .75, Where::any, "*fusedmoe* | fmoe* | moegemm* | moe & (*gemm* | mm | bmm | matmul* | gemv*)"},
  NameRule{"mlp-product", "fused_mlp", .75, Where::any, "*fusedmlp* | dualgemm* | (*gemm* | bmm | matmul*) & (*swiglu* | *geglu*)"},

  NameRule{"attention", "flash_attention", .95, Where::name,
    "*flashattn* | *flashattention* | *flashfwd* | *flashbwd* | flash | pytorchflash | *fmha* | mha | kernelmha | mmha | xqa | sdpa | *pagedattention* | "
    "batchprefill* | batchdecode* | singleprefill* | singledecode* | *mergestate* | *mergeattn* | mla & !cache | fwdgroupedkernel* | fwdkernelstage* | flexattention* | *reducesegment* | "
    "(*attention* | attn) & !*softmax* & !mask & !*quant* & !*norm* & !*rope* & !*rotary*"},
  NameRule{"attention-inside", "flash_attention", .95, Where::any, "*flashattn* | *flashattention* | *flashfwd* | *fmha* | *attention* & !*softmax*"},

  NameRule{"rope", "rope", .9, Where::name, "rope | *rope | rotary* | *rotaryembedding* | mrope* | *applyrope* | *qkrope* | *ropeembedding* | *normrope*"},

  NameRule{"norm", "norm", .95, Where::name,
    "*layernorm* | *rmsnorm* | *groupnorm* | *batchnorm* | *instancenorm* | normalization | bnfw* | bnbw* | bnfwd* | bnbwd* | bn | syncbn* | welford* | gammabeta* | *gradgammabeta* | "
    "rowwisemoments* | *computeinternalgradients* | *computefusedparams* | *computebackwardfusedparams* | *computegradinput* | lnfwd* | lnbwd* | *qknorm* | fusedresidualforward* | rms"},
  NameRule{"norm-inside", "norm", .9, Where::any, "rmsnorm* | *layernorm* | *batchnorm* | *groupnorm*"},

  NameRule{"loss", "loss", .95, Where::name,
    "*crossentropy* | *nllloss* | *nllcriterion* | nll | *xentropy* | mseloss* | bceloss* | smoothl1* | huber* | kldiv* | ctcloss* | ctc | l1loss* | focalloss* | jsd | fusedclassifier* | *softcrossentropy*"},
  NameRule{"log-softmax", "softmax_logsoftmax", .9, Where::any, "*logsoftmax* | softmaxwarp* & @flag"},
  NameRule{"softmax", "softmax", .95, Where::name, "*softmax*"},

  NameRule{"optimizer", "optimizer", .9, Where::name,
    "adam | adamw | adam* & !adamic | lamb | lambstage* | sgd* | adagrad* | rmsprop* | adafactor* | lion | muon | *optimizer* | fusedadam* | *fusedadamw* | ampupdatescale* | *unscale*"},

  // A convolution by an implicit product is one; the products of cuBLAS come after it.
  NameRule{"conv", "conv", .95, Where::name,
    "igemmfwd* | igemmbwd* | igemmwrw* | *implicitgemm* | *implicitconvolve* | *convolve* | *winograd* | fprop | dgrad | wgrad | *convolution* | conv | *conv1d* | *conv2d* | *conv3d* | *depthwise* | "
    "scudnn | hcudnn | im2col* | col2im* | im2d2col* | *vol2col* | *asmconv* | naiveconv* | *groupedconv* | *bwdweight* | *bwddata* | fft2d* | cask* | dgradengine* | *cuasmconv*"},
  NameRule{"conv-inside", "conv", .95, Where::any, "fprop | dgrad | wgrad | *implicitgemm* | *convolution* | gridwiseconv* | *conv2d* | *conv3d*"},

  NameRule{"product-library", "matmul", .98, Where::name, "cijk | nvjet | *gemm | *gemm* & xmma | *sgemm* | *hgemm* | *dgemm* | *gemv*"},
  NameRule{"product-split", "matmul", .95, Where::name, "*splitk* | epilogueimpl* | cublas* | cublaslt* | wvsplitk* | dotkernel | reduce1block* | scalkernel | axpykernel | trsm* | syrk* | *trmm*"},
  NameRule{"product", "matmul", .9, Where::name,
    "*gemm* | *matmul* | *matvec* | mm | bmm | addmm | baddbmm | *scaledmm* | *mulmat* | mmvq | mmqkernel | marlin | machete | flatmm* | sgmv* | bgmv* | *deepgemm*"},
  NameRule{"product-inside", "matmul", .95, Where::any, "*gemm* | cublas* | cublaslt* | *gemv*"},
  NameRule{"conv-library", "conv", .6, Where::name, "cudnn* & !ops & !pooling* & !*softmax* & !rnn* | miopen* & !pooling*"},

  NameRule{"gated-activation", "fused_mlp", .75, Where::name, "*actandmul* | *siluandmul* | *geluandmul* | *swiglu* | *geglu*"},
  NameRule{"activation", "fused_mlp_act", .9, Where::name, "silu* | gelu* | *silu | *gelu | relusquared | relu2 | fatrelu* | activationkernel | glu | bias & gelu"},
  NameRule{"pooling", "pooling", .95, Where::name, "maxpool* | avgpool* | *averagepool* | pooling* | *pooling | *pool1d* | *pool2d* | *pool3d* | adaptiveaverage* | adaptivemax*"},
  NameRule{"quantise", "quantization", .9, Where::name, "*quant | *quantize* | *dequant* | quant* | *qparam* | casttranspose* | *nvfp4* | *mxfp4* | *mxfp8* | blockscale* | fp8 & (cast | convert | scale | transpose)"},

  NameRule{"sort", "sort_scan", .95, Where::name,
    "*radixsort* | *bitonicsort* | *mergesort* | *segmentedsort* | sort* | *sort | argsort | topk* | *topk | searchsorted* | unique* | kthvalue* | *radixfindkth* | fillslicewithindex | *sampling*"},
  NameRule{"scan", "sort_scan", .9, Where::name,
    "devicescan* | *scaninnermost* | *scanouter* | cumsum & !chunk | cumprod | prefixsum* | devicereducebykey* | devicerunlength* | deviceselect* | devicepartition* | *lookbackscan* | scan & !selective & !chunk & !ssm"},
  NameRule{"sort-inside", "sort_scan", .9, Where::any, "*radixsort* | *mergesort* | *scanimpl* | *scanagent* | scanconfig* | wrappedscan* | *reducebykey* | *partitionimpl* | *selectimpl* | *uniquebykey* | nonzeroop"},

  NameRule{"reduction", "reduction", .95, Where::name,
    "reducekernel* | devicereduce* | devicesegmentedreduce* | reduce | reduction | sum | sumkernel* | argmax | argmin | globalnorm* | l2norm* | mean | amax | countnonzero | *reducerows* | *sumrows* | cupysum* | cupymean* | cupyamax* | cupyamin*"},
  NameRule{"reduction-inside", "reduction", .85, Where::any, "*reduceagent* | *reduceimpl* | reduceop | wrappedreduce*"},
  NameRule{"arange", "index_helper", .9, Where::name, "arange* | linspace* | iota | eye | triuindices* | trilindices* | *clampposition* | *computeposition* | *tokenids*"},

  NameRule{"movement", "data_movement", .85, Where::name,
    "copy* | *copy | memcpy* | memset* | fill* | *fill | zero* | setzero* | cat | catarray* | *concat* | concatenate | gather* | *scatter* | indexput* | index | *transpose* | permute* | unpermute* | *padkernel* | *pad1d* | *pad2d* | *pad3d* | constantpad* | "
    "flip* | roll | split & !splitk | chunkcat* | pack | unpack | cast* & !*subtensorop* | convert* | *cpy* | setrows* | slice* | repeat* | reshape* | cupycopy* | take | put | pad"},
  NameRule{"movement-inside", "data_movement", .6, Where::any, "uninitializedfill* | uninitializedcopy* | fillfunctor"},

  NameRule{"pointwise", "elementwise", .8, Where::name,
    "cupy* | *elementwise* | pointwise* | add | mul | sub | div | residual* | bias | *dropout* | *scale* | scaling | clamp* | where | upsample* | interpolate* | gridsampler* | relu* | sigmoid* | tanh* | exp | rand* | random* | "
    "unary* | binary* | softcap* | optensor* | *subtensorop* | opgenerictensor* | tril | triu | triutril* | mask | masked* | lerp | pow | sqrt | negate | negative | multiply | subtract | divide | select | compare | *addtensor*"},
  NameRule{"pointwise-inside", "elementwise", .55, Where::any, "*parallelfor* | *unarytransform* | *binarytransform* | transformkernel*"},
  NameRule{"xla-loop", "elementwise", .5, Where::name, "loop & fusion"},
};
// clang-format on

// Operators that move, and those that ran before a fused kernel began.
constexpr std::array<std::string_view, 67> kMoves = {
    "addmm", "alias", "as", "attention", "baddbmm", "backward", "bmm", "cat", "clone", "constant", "convolution", "copy", "cudnn", "detach", "dot", "efficient",
    "empty", "expand", "fill", "flash", "flip", "forward", "fresh", "full", "gather", "index", "lift", "like", "mm", "nd", "new",
    "ones", "pad", "permute", "product", "put", "reflection", "repeat", "reshape", "roll", "scalar", "scaled", "scatter", "select", "slice", "split", "squeeze",
    "stack", "strided", "t", "tensor", "to", "transpose", "unbind", "unfold", "unsafe", "unsqueeze", "view", "with", "sizes", "zeros",
    "narrow", "movedim", "flatten", "interleave", "tile", "zero"};

// The rules' conditions, taken apart once.
struct Word {
  std::string_view text;
  bool absent;
};
using All = std::vector<Word>;
using Any = std::vector<All>;

std::string_view trimmed(std::string_view text) {
  const size_t from = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(from, text.find_last_not_of(' ') + 1 - from);
}

std::vector<std::string_view> pieces(std::string_view text, char mark) {
  std::vector<std::string_view> found;
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != mark || depth > 0)) continue;
    found.push_back(trimmed(text.substr(from, i - from)));
    from = i + 1;
  }
  return found;
}

// "a & (b | c)" becomes "a & b | a & c".
Any parsed(std::string_view when) {
  Any any;
  for (const std::string_view alternative : pieces(when, '|')) {
    Any products = {{}};
    for (const std::string_view factor : pieces(alternative, '&')) {
      Any sum;
      if (factor.starts_with('('))
        sum = parsed(factor.substr(1, factor.size() - 2));
      else if (factor.starts_with('!'))
        sum = {{{factor.substr(1), true}}};
      else
        sum = {{{factor, false}}};
      Any next;
      for (const All& product : products)
        for (const All& term : sum) {
          next.push_back(product);
          next.back().insert(next.back().end(), term.begin(), term.end());
        }
      products = std::move(next);
    }
    any.insert(any.end(), products.begin(), products.end());
  }
  return any;
}

const std::vector<Any>& conditions() {
  static const std::vector<Any> all = [] {
    std::vector<Any> list;
    for (const NameRule& rule : kRules) list.push_back(parsed(rule.when));
    return list;
  }();
  return all;
}

// The parts a rule looks at, whether they hold nothing but movement, and whether the first boolean argument of the template is true.
struct Subject {
  std::span<const NamePart> parts;
  bool moves = false, flag = false;

  bool has(std::string_view word) const {
    if (word == "@moves") return moves;
    if (word == "@flag") return flag;
    return std::any_of(parts.begin(), parts.end(), [&](const NamePart& part) { return part.has(word); });
  }
  bool fits(const Any& any) const {
    return std::any_of(any.begin(), any.end(), [&](const All& all) {
      return std::all_of(all.begin(), all.end(), [&](const Word& word) { return has(word.text) != word.absent; });
    });
  }
};

const NameRule* first(Where where, const Subject& subject) {
  for (size_t i = 0; i < kRules.size(); ++i)
    if (kRules[i].where == where && subject.fits(conditions()[i])) return &kRules[i];
  return nullptr;
}

// "poi::add_mul" of "triton_poi_fused_add_mul_3".
std::optional<std::string> fused_operators(std::string_view name) {
  constexpr std::string_view kTool = "triton_", kMark = "fused_";
  if (!name.starts_with(kTool)) return {};
  name.remove_prefix(kTool.size());
  const size_t mark = name.find(kMark);
  if (mark == std::string_view::npos || mark > 4) return {};
  const std::string_view kind = mark > 0 ? name.substr(0, mark - 1) : "fused";
  name.remove_prefix(mark + kMark.size());
  if (const size_t last = name.find_last_not_of("0123456789_"); last != std::string_view::npos) name = name.substr(0, last + 1);
  if (name.empty()) return {};
  return std::string(kind) + "::" + std::string(name);
}

bool moves_only(std::string_view operators) {
  for (const std::string_view word : pieces(operators, '_'))
    if (!word.empty() && std::find(kMoves.begin(), kMoves.end(), word) == kMoves.end()) return false;
  return true;
}

bool first_flag(std::string_view name) {
  const size_t yes = name.find(" true"), no = name.find(" false");
  return yes != std::string_view::npos && (no == std::string_view::npos || yes < no);
}

}  // namespace

std::span<const NameRule> name_rules() { return kRules; }

const NameRule* rule_of_kernel(std::string_view normalised) {
  if (const auto operators = fused_operators(normalised)) {
    const NamePart part(*operators, 0);
    return first(Where::fused, {std::span(&part, 1), moves_only(std::string_view(*operators).substr(operators->find("::") + 2))});
  }
  const std::vector<NamePart> parts = parts_of(normalised);
  const auto own = std::find_if(parts.begin(), parts.end(), [](const NamePart& part) { return part.depth() == 0; });
  const bool flag = first_flag(normalised);
  const Subject all{parts, false, flag}, name{std::span(own, parts.end()), false, flag};
  if (const NameRule* carrier = first(Where::carrier, name)) {
    for (auto part = parts.begin(); part != own; ++part)
      if (const NameRule* functor = first(Where::functor, {std::span(&*part, 1)})) return functor;
    return carrier;
  }
  for (size_t i = 0; i < kRules.size(); ++i) {
    const Where where = kRules[i].where;
    if ((where == Where::name && name.fits(conditions()[i])) || (where == Where::any && all.fits(conditions()[i]))) return &kRules[i];
  }
  return nullptr;
}

}  // namespace kl::trace
