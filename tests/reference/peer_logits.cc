// Writes llama.cpp's logits of every token of a sequence, [tokens][vocab] float32, to stdout:
// peer_logits MODEL CONTEXT ID... (tests/reference/record_families.py). With "pooled" for CONTEXT:
// the text's embedding, or the labels of a reranker. KVICK_PEER_LIBRARIES is the folder of its
// libggml-*.so, if it is a separate one.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <llama.h>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  if (const char* folder = std::getenv("KVICK_PEER_LIBRARIES"))
    ggml_backend_load_all_from_path(folder);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.embeddings = std::strcmp(argv[2], "pooled") == 0;
  params.n_ctx = params.embeddings ? 512 : static_cast<uint32_t>(std::atoi(argv[2]));
  params.n_batch = params.n_ubatch = 512;
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  const int count = argc - 3;
  llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; ++i) {
    batch.token[i] = std::atoi(argv[3 + i]);
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  if (llama_decode(context, batch) != 0) return 1;
  if (params.embeddings) {
    const bool ranks = llama_pooling_type(context) == LLAMA_POOLING_TYPE_RANK;
    const auto width = static_cast<size_t>(ranks ? static_cast<int>(llama_model_n_cls_out(model))
                                                 : llama_model_n_embd_out(model));
    std::fwrite(llama_get_embeddings_seq(context, 0), sizeof(float), width, stdout);
    return std::fflush(stdout);
  }
  const auto vocab = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  for (int i = 0; i < count; ++i)
    std::fwrite(llama_get_logits_ith(context, i), sizeof(float), vocab, stdout);
  return std::fflush(stdout);
}
