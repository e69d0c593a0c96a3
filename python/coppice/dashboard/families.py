"""Model families that are newer than those in PyTorch's lists: experts, states instead of
attention, images with captions (from `transformers`), and diffusion (from `diffusers`)."""

import functools

import torch

from coppice.dashboard import huggingface as hf
from coppice.dashboard.model import Model

PIXELS = 32
VISION = {"image_size": PIXELS, "patch_size": 8}
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2,
           "moe_intermediate_size": 32, "n_routed_experts": 4, "n_shared_experts": 1}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
          "v_head_dim": 8, "head_dim": 8, "num_key_value_heads": 4, "n_group": 2, "topk_group": 1,
          "first_k_dense_replace": 1, **EXPERTS}
# {name: (class, fields that are its own)}.
WORDS = {
    "Mixtral": ("MixtralForCausalLM", {"num_local_experts": 4}),
    "Qwen2-MoE": ("Qwen2MoeForCausalLM", {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32}),
    "Qwen3-Next": ("Qwen3NextForCausalLM", {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"]}),
    "DeepSeek-V2": ("DeepseekV2ForCausalLM", LATENT),
    "DeepSeek-V3": ("DeepseekV3ForCausalLM", LATENT),
    "Mamba": ("MambaForCausalLM", {"state_size": 8, "time_step_rank": 4}),
    "Mamba2": ("Mamba2ForCausalLM", {
        "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}),
    "RWKV": ("RwkvForCausalLM", {"attention_hidden_size": 32, "context_length": 64}),
}
# {name: (class, fields, fields of its configurations of words and of images)}.
PAIRED = {"CLIP": ("CLIPModel", {"projection_dim": 32}), "SigLIP": ("SiglipModel", {})}


def make_pair(class_name, fields, full):
    """A model of words and images. It has a configuration for each."""
    import transformers

    config = getattr(transformers, class_name).config_class
    if full:
        return getattr(transformers, class_name)(config())
    parts = {f"{name}_config": hf.configuration(config.sub_configs[f"{name}_config"], own, False)
             .to_dict() for name, own in (("text", {}), ("vision", VISION))}
    return getattr(transformers, class_name)(config(**parts, **fields))


def draw_pair(size, full):
    pixels = 224 if full else PIXELS
    return {**hf.draw_tokens(size, full), "pixel_values": torch.randn(size.rows, 3, pixels, pixels)}


def draw_image(size, full):
    return {"pixel_values": draw_pair(size, full)["pixel_values"]}


def make_diffusion(class_name, fields, full):
    import diffusers

    return getattr(diffusers, class_name)(**({} if full else fields))


def draw_unet(size, full):
    return {"sample": torch.randn(size.rows, 3, PIXELS, PIXELS),
            "timestep": torch.randint(0, 1000, (size.rows,))}


def draw_dit(size, full):
    return {"hidden_states": torch.randn(size.rows, 4, 16, 16),
            "timestep": torch.randint(0, 1000, (size.rows,)),
            "class_labels": torch.randint(0, 10, (size.rows,))}


def draw_flux(size, full):
    """Images of 16 patches, and captions as long as the size says."""
    return {"hidden_states": torch.randn(size.rows, 16, 16),
            "encoder_hidden_states": torch.randn(size.rows, size.length, 32),
            "pooled_projections": torch.randn(size.rows, 32), "timestep": torch.rand(size.rows),
            "img_ids": torch.randint(0, 4, (16, 3)).float(), "txt_ids": torch.zeros(size.length, 3)}


# {name: (class, fields, what draws)}.
DIFFUSION = {
    "Flux": ("FluxTransformer2DModel", {
        "patch_size": 1, "in_channels": 16, "num_layers": 1, "num_single_layers": 1,
        "attention_head_dim": 16, "num_attention_heads": 2, "joint_attention_dim": 32,
        "pooled_projection_dim": 32, "axes_dims_rope": (4, 6, 6)}, draw_flux),
    "UNet2D": ("UNet2DModel", {
        "sample_size": PIXELS, "block_out_channels": (8, 16), "layers_per_block": 1,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "norm_num_groups": 4,
        "attention_head_dim": 8}, draw_unet),
    "DiT": ("DiTTransformer2DModel", {
        "num_attention_heads": 4, "attention_head_dim": 8, "in_channels": 4, "out_channels": 4,
        "num_layers": 2, "sample_size": 16, "num_embeds_ada_norm": 10}, draw_dit),
}


def models():
    model = functools.partial(Model, "families")
    for name, (class_name, fields) in WORDS.items():
        yield model(name, functools.partial(hf.make, class_name, fields), hf.draw_tokens,
                    needs="transformers")
    for name, (class_name, fields) in PAIRED.items():
        yield model(name, functools.partial(make_pair, class_name, fields), draw_pair,
                    needs="transformers")
    yield model("DINOv3", functools.partial(hf.make, "DINOv3ViTModel", VISION), draw_image,
                needs="transformers")
    for name, (class_name, fields, draw) in DIFFUSION.items():
        yield model(name, functools.partial(make_diffusion, class_name, fields), draw,
                    needs="diffusers")
