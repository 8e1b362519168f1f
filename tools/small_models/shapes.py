"""The families that train.py knows, and the configuration of a model of each, in the form of its config.json."""

# The published models repeat these: every sixth layer of Gemma 3 sees all rows, the others a window; every fourth layer of Qwen3.5 has
# attention, the others a gated delta net.
GEMMA_PERIOD = 6
QWEN35_PERIOD = 4
END = 0  # the one special token: ends a text


def common(sizes, vocab):
    return {"vocab_size": vocab, "hidden_size": sizes.dim, "intermediate_size": 3 * sizes.dim, "num_hidden_layers": sizes.layers,
            "num_attention_heads": sizes.heads, "num_key_value_heads": sizes.kv_heads, "head_dim": sizes.head_dim,
            "max_position_embeddings": sizes.context, "tie_word_embeddings": True,
            "bos_token_id": END, "eos_token_id": END, "pad_token_id": None}


def rotation(base):
    return {"rope_type": "default", "rope_theta": base}


def qwen3(sizes, vocab):
    return common(sizes, vocab) | {"model_type": "qwen3", "rope_parameters": rotation(1e6)}


def gemma3(sizes, vocab):
    kinds = ["full_attention" if layer % GEMMA_PERIOD == GEMMA_PERIOD - 1 else "sliding_attention" for layer in range(sizes.layers)]
    return common(sizes, vocab) | {
        "model_type": "gemma3_text", "layer_types": kinds, "sliding_window": sizes.context // 4, "query_pre_attn_scalar": sizes.head_dim,
        "rope_parameters": {"sliding_attention": rotation(1e4), "full_attention": rotation(1e6)}}


def qwen35(sizes, vocab):
    kinds = ["full_attention" if layer % QWEN35_PERIOD == QWEN35_PERIOD - 1 else "linear_attention" for layer in range(sizes.layers)]
    return common(sizes, vocab) | {
        "model_type": "qwen3_5_text", "layer_types": kinds, "rope_parameters": rotation(1e7) | {"partial_rotary_factor": 0.25},
        "linear_num_key_heads": sizes.kv_heads, "linear_num_value_heads": sizes.heads, "linear_key_head_dim": sizes.head_dim,
        "linear_value_head_dim": sizes.head_dim}


def falcon_h1(sizes, vocab):
    # A state (Mamba-2) beside attention in each layer, of twice the hidden state's width, in heads of 32.
    inner, head = 2 * sizes.dim, 32
    return common(sizes, vocab) | {
        "model_type": "falcon_h1", "rope_parameters": rotation(1e11), "mamba_expand": 2, "mamba_d_ssm": inner, "mamba_d_head": head,
        "mamba_n_heads": inner // head, "mamba_d_state": sizes.head_dim, "mamba_chunk_size": 64}


FAMILIES = {"qwen3": qwen3, "gemma3": gemma3, "qwen35": qwen35, "falcon-h1": falcon_h1}
PERIODS = {"gemma3": GEMMA_PERIOD, "qwen35": QWEN35_PERIOD}  # layers; the last of each period sees the whole context


def check(family, sizes, vocab):
    """Raises ValueError for sizes of which no model can be made."""
    for name, value in vars(sizes).items():
        if value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    if vocab < 257:
        raise ValueError(f"--vocab {vocab}: must be at least 257, for the 256 bytes and the token that ends a text")
    for name in "dim", "head_dim":
        if (value := getattr(sizes, name)) % 32:
            raise ValueError(f"--{name.replace('_', '-')} {value}: must be a multiple of 32, because kvick's quantised types have blocks of 32")
    if sizes.heads % sizes.kv_heads:
        raise ValueError(f"--heads {sizes.heads}: must be a multiple of --kv-heads {sizes.kv_heads}")
    if sizes.context < 8:
        raise ValueError(f"--context {sizes.context}: must be at least 8")
    if sizes.layers < PERIODS.get(family, 1):
        raise ValueError(f"--layers {sizes.layers}: {family} needs at least {PERIODS[family]}, because only one in {PERIODS[family]} layers "
                         "sees the whole context")
