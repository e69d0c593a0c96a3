"""PyTorch's list of Hugging Face models, from `transformers`, with small configurations and random
weights.
"""

import functools

import torch

from coppice.dashboard.model import Model

VOCABULARY = 128
# Of configurations that have such a field.
SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size",
                     "true_hidden_size", "cross_attention_hidden_size"), 32),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim",
                     "d_inner", "n_inner", "hidden_dim", "mlp_dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers",
                     "num_decoder_layers", "encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads",
                     "decoder_attention_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("head_dim", "d_kv", "d_head", "sliding_window"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    # Larger than a training begins with, so that attention is not uniform.
    **dict.fromkeys(("initializer_range", "init_std"), 0.1),
    "num_key_value_heads": 2, "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 2, "use_cache": False,
}
# What they are called by where that is not the name, and what is theirs alone.
CLASSES = {
    "AllenaiLongformerBase": "LongformerForMaskedLM", "CamemBert": "CamembertForMaskedLM",
    "DistillGPT2": "GPT2LMHeadModel", "GoogleFnet": "FNetForMaskedLM",
    "T5Small": "T5ForConditionalGeneration", "YituTechConvBert": "ConvBertForMaskedLM",
    "Llama-3.2": "LlamaForCausalLM", "gemma-2": "Gemma2ForCausalLM",
    "gemma-3": "Gemma3ForCausalLM", "whisper-tiny": "WhisperForConditionalGeneration",
    "Qwen3": "Qwen3ForCausalLM", "Mistral-7B": "MistralForCausalLM", "gpt-oss": "GptOssForCausalLM",
}
FIELDS = {
    "AllenaiLongformerBase": {"attention_window": 8},
    "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "GPTNeoForSequenceClassification": {"attention_types": [[["global", "local"], 1]],
                                        "window_size": 8},
    "GPTJForCausalLM": {"rotary_dim": 4},
    "GPTJForQuestionAnswering": {"rotary_dim": 4},
    "MobileBertForMaskedLM": {"intra_bottleneck_size": 32},
    "MobileBertForQuestionAnswering": {"intra_bottleneck_size": 32},
    "gpt-oss": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "whisper-tiny": {"max_source_positions": 16, "max_target_positions": 64, "num_mel_bins": 8},
}
NAMES = """
    AlbertForMaskedLM AlbertForQuestionAnswering AllenaiLongformerBase BartForCausalLM
    BartForConditionalGeneration BertForMaskedLM BertForQuestionAnswering BlenderbotForCausalLM
    BlenderbotForConditionalGeneration BlenderbotSmallForCausalLM
    BlenderbotSmallForConditionalGeneration CamemBert DebertaV2ForMaskedLM
    DebertaV2ForQuestionAnswering DistilBertForMaskedLM DistilBertForQuestionAnswering DistillGPT2
    ElectraForCausalLM ElectraForQuestionAnswering GPT2ForSequenceClassification GPTJForCausalLM
    GPTJForQuestionAnswering GPTNeoForCausalLM GPTNeoForSequenceClassification GoogleFnet
    LayoutLMForMaskedLM LayoutLMForSequenceClassification M2M100ForConditionalGeneration
    MBartForCausalLM MBartForConditionalGeneration MT5ForConditionalGeneration
    MegatronBertForCausalLM MegatronBertForQuestionAnswering MobileBertForMaskedLM
    MobileBertForQuestionAnswering OPTForCausalLM PLBartForCausalLM PLBartForConditionalGeneration
    PegasusForCausalLM PegasusForConditionalGeneration RobertaForCausalLM
    RobertaForQuestionAnswering T5ForConditionalGeneration T5Small TrOCRForCausalLM
    XGLMForCausalLM XLNetLMHeadModel
    YituTechConvBert Llama-3.2 gemma-2 gemma-3 whisper-tiny Qwen3 Mistral-7B gpt-oss
""".split()


def configuration(config, fields, full):
    """The default configuration if `full`, else a small one. Both are without dropout."""
    known = config().to_dict()
    chosen = {name: value for name, value in SMALL.items() if name in known and not full}
    chosen |= {name: 0.0 for name, value in known.items()
               if isinstance(value, float) and ("drop" in name or name.endswith("pdrop"))}
    chosen |= {"use_cache": False} if "use_cache" in known else {}
    return config(**{**chosen, **({} if full else fields)})


def make(class_name, fields, full):
    import transformers

    model = getattr(transformers, class_name)
    return model(configuration(model.config_class, fields, full))


def tokens(rows, length):
    """Random tokens. None of them is the padding token."""
    return torch.randint(3, VOCABULARY, (rows, length))


def draw_tokens(size, full):
    return {"input_ids": tokens(size.rows, size.length)}


def draw_masked(size, full):
    """Each row has its own length."""
    lengths = torch.randint(1, size.length + 1, (size.rows, 1))
    lengths[0] = size.length
    return {**draw_tokens(size, full),
            "attention_mask": (torch.arange(size.length) < lengths).long()}


def draw_pairs(size, full):
    return {**draw_tokens(size, full),
            "decoder_input_ids": tokens(size.rows, size.length // 2 + 1)}


def draw_boxes(size, full):
    corners = torch.randint(0, 500, (size.rows, size.length, 2))
    return {**draw_tokens(size, full), "bbox": torch.cat([corners, corners + 20], -1)}


def draw_speech(size, full):
    bins, frames = (80, 3000) if full else (8, 32)
    return {"input_features": torch.randn(size.rows, bins, frames),
            "decoder_input_ids": tokens(size.rows, size.length)}


def drawn_for(class_name):
    if class_name.startswith("LayoutLM"):
        return draw_boxes
    if class_name.startswith("Whisper"):
        return draw_speech
    if class_name.endswith("ForConditionalGeneration"):
        return draw_pairs
    masked = class_name.endswith(("ForMaskedLM", "ForQuestionAnswering"))
    return draw_masked if masked and not class_name.startswith("FNet") else draw_tokens


def models():
    for name in NAMES:
        class_name = CLASSES.get(name, name)
        yield Model("huggingface", name,
                    functools.partial(make, class_name, FIELDS.get(name, {})),
                    drawn_for(class_name), needs="transformers")
