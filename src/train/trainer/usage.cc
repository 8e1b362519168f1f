#include "train/trainer/commands.h"

namespace kvick::train {

const char* const kUsage = R"(kvick train: train small models and turn them into model files

  kvick train tokens -f TEXT ... -o DATA     text as tokens; the last 5 % of each file are held out
  kvick train lm  --data DATA -o FOLDER      a transformer of the llama family
  kvick train bct --data DATA -o FOLDER      one whose attention reads a memory of slots (BCT)
  kvick train draft --start START --data ANSWERS -o FOLDER    some of a model's layers, as a model
                                             that drafts tokens for the whole one
  kvick train maple --start START --data DATA -o FOLDER    a model, and the predictor of the rows that
                                             it reads (MAPLE, equation 3)
  kvick train eval CHECKPOINT --data DATA    perplexity of held-out text at several contexts
  kvick train export CHECKPOINT -o FILE.gguf [--type f32|bf16|q8_0] [--ctx N]
  kvick train check                          test the fast paths against their definitions on this device

  START and ANSWERS are files of kvick train start and kvick train answers. Defaults are in brackets.

lm, bct, draft and maple:
  --task text|mqar|copy     text, or recall of --pairs keys, or copying of --pairs tokens, out of
                            --symbols; these two print the share of right answers  (text, 16, 256)
  --dim --layers --heads --kv-heads --head-dim --ffn --ctx     (256, 4, 4, heads, dim/heads, 8/3 dim, 256)
  --slots M                 bct: slots of the memory of each KV head  (256)
  --update plain|step|gated|delta    bct: how a token changes the memory  (gated)
  --address own|both        bct: whose input says which slots a token is written to: its own, or also
                            that of the token before it  (own)
  --read normed|plain       bct: what a head has read, normalised or as it is  (normed)
  --shortest --longest TOKENS    bct, gated: how long the memories of the first and the last KV head last
                            before training, in geometric steps  (1.5, 2000)
  --batch --steps           sequences of a step, and steps  (16, 1000)
  --minutes N               train for N minutes; the learning rate follows the time instead of the steps
  --lr --warmup --least-lr  rate after --warmup steps, then a cosine down to its share --least-lr  (1e-3, 50, 0.1)
  --weight-decay --beta2 --clip --dropout    (0.1, 0.95, 1, 0)
  --seed N  --precision auto|f32|bf16        (1; auto: bf16 on a GPU, f32 elsewhere)
  --every MINUTES           minutes between checkpoints  (3)
  --log-steps --held-out-steps --held-out-targets    steps between points of the log, steps between
                            measurements of held-out data, and tokens that these predict  (50, 250, 65536)
  --resume                  go on from FOLDER's checkpoint
  --start FILE              lm, draft, maple: begin with a model's weights, as kvick train start writes them
  --train all|blocks        blocks: neither the embedding nor the last norm  (all; draft: blocks)
  --negatives N             draft: tokens drawn for each step's loss; 0: the whole vocabulary  (4096)
  --budget --least --sinks --recent    maple: the share of rows that is read; the fewest rows that it
                            amounts to; first and newest rows, counted in it  (0.25, 128, 4, 32)
  --alpha A                 maple: weight of the error of predicted scores in the loss  (1)
  --context N               the longest sequence that model.gguf allows  (as START, or --ctx)
  --type f32|bf16|q8_0      of FOLDER/model.gguf, written at the end  (f32; draft: q8_0)
  --device cpu|cuda  --threads N  --json  --quiet

eval: --contexts 512,1024,...  --targets N (65536)  --precision  --device  --threads
)";

}  // namespace kvick::train
