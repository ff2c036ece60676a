"""Captioners and question answerers of random weights, small enough to be made in a test.

Every function saves a model, its image processor and its tokenizer into a folder, as a repository of the hub has them,
and returns the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

_TEXT = """
yes no Yes No red green blue Red a an the dog cat two 2 is there what color of photo image in Question Answer Short
question answer short : ? . , USER ASSISTANT describe caption with or choices one Choices image sentence
"""
WORDS = tuple(_TEXT.split())
CHAT = (
    "{% for message in messages %}USER : {% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %} {{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %} ASSISTANT :{% endif %}"
)
QWEN_CHAT = CHAT.replace("<image>", "<|vision_start|><|image_pad|><|vision_end|>")
SIDE = 32
VISION: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIDE,
    "patch_size": 16,
}  # fmt: skip


def enliven(model: Any, seed: int = 0) -> Any:
    """Give a model weights, always the same, so large that its answers differ between images."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if (parameter.ndim > 1 or "class_embedding" in name) and parameter.numel():
                size = parameter[0].numel() ** 0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 1.2 / size)
    return model.eval()


def tokenizer(*special: str, template: str | None = None, **roles: str) -> Any:
    """A tokenizer of whole words. ``template``: as the post-processor writes it, such as ``[CLS] $A [SEP]``."""
    vocabulary = {token: i for i, token in enumerate([*special, "[UNK]", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if template is not None:
        used = [(token, vocabulary[token]) for token in special if token in template]
        inner.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", additional_special_tokens=list(special), **roles
    )


def _bert_tokenizer() -> Any:
    return tokenizer(
        "[PAD]", "[CLS]", "[SEP]", "[DEC]", template="[CLS] $A [SEP]",
        pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", bos_token="[DEC]",
    )  # fmt: skip


def _save(folder: Path, *parts: Any) -> Path:
    for part in parts:
        part.save_pretrained(folder)
    return folder


def _blip_config(words: Any) -> Any:
    text = {
        "vocab_size": len(words), "hidden_size": 16, "encoder_hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64, "bos_token_id": 3,
        "pad_token_id": 0, "eos_token_id": 2, "sep_token_id": 2, "projection_dim": 16,
    }  # fmt: skip
    return transformers.BlipConfig(text_config=text, vision_config=VISION, projection_dim=16)


def _blip_processor(words: Any) -> Any:
    images = transformers.BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return transformers.BlipProcessor(images, words)


def blip_captioner(folder: Path) -> Path:
    words = _bert_tokenizer()
    model = transformers.BlipForConditionalGeneration(_blip_config(words))
    return _save(folder, enliven(model), _blip_processor(words))


def blip_vqa(folder: Path) -> Path:
    words = _bert_tokenizer()
    model = transformers.BlipForQuestionAnswering(_blip_config(words))
    return _save(folder, enliven(model), _blip_processor(words))


def _query_transformer(words: Any, vision: dict[str, Any] = VISION) -> dict[str, Any]:
    return {
        "vocab_size": len(words), "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "encoder_hidden_size": vision["hidden_size"], "cross_attention_frequency": 1,
    }  # fmt: skip


def _opt(words: Any) -> Any:
    return transformers.OPTConfig(
        vocab_size=len(words), hidden_size=16, ffn_dim=16, num_hidden_layers=1, num_attention_heads=2,
        word_embed_proj_dim=16, max_position_embeddings=64, bos_token_id=2, eos_token_id=2, pad_token_id=1,
    )  # fmt: skip


def _t5(words: Any) -> Any:
    return transformers.T5Config(
        vocab_size=len(words), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, pad_token_id=1, eos_token_id=2,
        bos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip


def _language_tokenizer(*, encoder_decoder: bool) -> Any:
    return tokenizer(
        "<image>", "<pad>", "</s>", template="$A </s>" if encoder_decoder else "</s> $A",
        pad_token="<pad>", eos_token="</s>", bos_token="</s>",
    )  # fmt: skip


def blip2(folder: Path, *, encoder_decoder: bool = False, vision: dict[str, Any] = VISION) -> Path:
    words = _language_tokenizer(encoder_decoder=encoder_decoder)
    words.image_token = "<image>"
    config = transformers.Blip2Config(
        vision_config=vision, qformer_config=_query_transformer(words, vision), num_query_tokens=4, image_token_index=0,
        text_config=(_t5 if encoder_decoder else _opt)(words).to_dict(),
    )  # fmt: skip
    images = transformers.BlipImageProcessorPil(size={"height": vision["image_size"], "width": vision["image_size"]})
    processor = transformers.Blip2Processor(images, words, num_query_tokens=4)
    return _save(folder, enliven(transformers.Blip2ForConditionalGeneration(config)), processor)


def instruct_blip(folder: Path) -> Path:
    words = _language_tokenizer(encoder_decoder=True)
    words.image_token = "<image>"
    reader = _bert_tokenizer()
    config = transformers.InstructBlipConfig(
        vision_config=VISION, qformer_config=_query_transformer(reader), num_query_tokens=4, image_token_index=0,
        text_config=_t5(words).to_dict(),
    )  # fmt: skip
    images = transformers.BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    processor = transformers.InstructBlipProcessor(images, words, reader, num_query_tokens=4)
    return _save(folder, enliven(transformers.InstructBlipForConditionalGeneration(config)), processor)


def git(folder: Path) -> Path:
    words = _bert_tokenizer()
    config = transformers.GitConfig(
        vision_config=VISION, vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    return _save(folder, enliven(transformers.GitForCausalLM(config)), transformers.GitProcessor(images, words))


def vision_encoder_decoder(folder: Path) -> Path:
    words = _language_tokenizer(encoder_decoder=True)
    decoder = transformers.GPT2Config(
        vocab_size=len(words), n_embd=16, n_layer=1, n_head=2, n_positions=64, add_cross_attention=True,
        is_decoder=True, bos_token_id=2, eos_token_id=2,
    )  # fmt: skip
    encoder = transformers.ViTConfig(**VISION)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 1, 2
    model = transformers.VisionEncoderDecoderModel(config)
    model.generation_config.decoder_start_token_id = 2
    model.generation_config.pad_token_id = 1
    images = transformers.ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return _save(folder, enliven(model), words, images)


def _llama(words: Any) -> dict[str, Any]:
    return {
        "model_type": "llama", "vocab_size": len(words), "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1,
    }  # fmt: skip


def llava(folder: Path, *, chat_template: str | None = CHAT) -> Path:
    words = _language_tokenizer(encoder_decoder=False)
    config = transformers.LlavaConfig(
        vision_config={"model_type": "clip_vision_model", **VISION}, text_config=_llama(words), image_token_index=0,
        vision_feature_layer=-2, vision_feature_select_strategy="default",
    )  # fmt: skip
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    processor = transformers.LlavaProcessor(
        images, words, patch_size=16, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template=chat_template,
    )  # fmt: skip
    return _save(folder, enliven(transformers.LlavaForConditionalGeneration(config)), processor)


def _qwen_words() -> Any:
    special = ("<|image_pad|>", "<pad>", "</s>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>")
    words = tokenizer(*special, pad_token="<pad>", eos_token="</s>")
    words.chat_template = QWEN_CHAT
    return words


def _save_qwen(folder: Path, model: Any, words: Any, processor: str) -> Path:
    """As the hub has it: its processor wants a video processor, which only exists for torchvision."""
    images = transformers.Qwen2VLImageProcessorPil(
        size={"shortest_edge": 16 * 16, "longest_edge": 64 * 64}, patch_size=8, merge_size=2, temporal_patch_size=2
    )
    _save(folder, enliven(model), images, words)
    written = folder / "preprocessor_config.json"
    text_of = written.read_text()
    written.write_text(text_of.replace("{", f'{{\n  "processor_class": "{processor}",', 1))
    return folder


def _mrope(words: Any, kind: str) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    return {**_llama(words), "model_type": kind, "rope_parameters": rope}


def qwen2_vl(folder: Path) -> Path:
    words = _qwen_words()
    config = transformers.Qwen2VLConfig(
        text_config=_mrope(words, "qwen2_vl_text"), image_token_id=0, video_token_id=5, vision_start_token_id=3,
        vision_end_token_id=4,
        vision_config={
            "depth": 1, "embed_dim": 16, "hidden_size": 16, "mlp_ratio": 1, "num_heads": 2, "patch_size": 8,
            "spatial_merge_size": 2, "temporal_patch_size": 2,
        },
    )  # fmt: skip
    return _save_qwen(folder, transformers.Qwen2VLForConditionalGeneration(config), words, "Qwen2VLProcessor")


def qwen2_5_vl(folder: Path) -> Path:
    words = _qwen_words()
    config = transformers.Qwen2_5_VLConfig(
        text_config=_mrope(words, "qwen2_5_vl_text"), image_token_id=0, video_token_id=5, vision_start_token_id=3,
        vision_end_token_id=4,
        vision_config={
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16,
            "patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 32,
            "fullatt_block_indexes": [0],
        },
    )  # fmt: skip
    model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    return _save_qwen(folder, model, words, "Qwen2_5_VLProcessor")


def qwen3_vl(folder: Path) -> Path:
    words = _qwen_words()
    config = transformers.Qwen3VLConfig(
        text_config={**_mrope(words, "qwen3_vl_text"), "head_dim": 8, "num_hidden_layers": 2}, image_token_id=0,
        video_token_id=5, vision_start_token_id=3, vision_end_token_id=4,
        vision_config={
            "depth": 2, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16,
            "patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
    )  # fmt: skip
    model = transformers.Qwen3VLForConditionalGeneration(config)
    return _save_qwen(folder, model, words, "Qwen3VLProcessor")
