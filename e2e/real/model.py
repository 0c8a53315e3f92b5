"""Makes a tiny language model with random weights, with its tokenizer and chat template.

    python model.py FOLDER [tiny | 7b]

Needs `transformers` and `torch`. The model is a Qwen2 of two layers and a few MB (`7b`: with the layers of
the 7B model in bf16, made on the GPU where there is one), from a fixed seed; the
tokenizer is a byte-level BPE learnt from the words below, so every text can be written in it. With
temperature 1 such a model writes noise: split characters and control characters among words, which is
what a reader of streams should meet. The `7b` never thinks special tokens and half characters the likeliest:
at temperature 0 all its answers are text of the length that was asked for. Nothing is written when FOLDER already holds a model.
"""

import sys
from pathlib import Path

# Hidden, layers, heads, heads of keys and values, feed-forward.
SIZES = {"tiny": (256, 2, 4, 4, 512), "7b": (3584, 28, 28, 4, 18944)}
CONTEXT = 2048
# At most: the lines below run out of merges before.
VOCABULARY = 2048

LINES = """Call the keeper of the tower when the lamp goes out and the boats are still beyond the point.
Rain fell for nine days; on the tenth the road to the mill was gone, and nobody could say where.
She counted the coins twice, put three of them back, and asked what the rest of the cloth would cost.
A map is a promise that the country will be where it was drawn, and most countries keep it badly.
He wrote: the engine runs, the gauge does not; I trust the engine, and I have told the gauge so.
Between the first note and the second there was time enough to wonder whether there would be one.
Measure, then cut; but first ask whether the rule is longer today than it was yesterday.
The children of the village know seven words for snow, and one of them means tomorrow.""".split("\n")

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def tokenizer():
    """A byte-level BPE with Qwen's special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    inner.train_from_iterator(LINES * 4, trainer)
    outer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    outer.chat_template = CHAT
    return outer


def hide_noise(model, words) -> None:
    """Gives every token that is not plain text on its own the same low likelihood."""
    import torch

    def is_plain(token: int) -> bool:
        text = words.decode([token])
        return token not in words.all_special_ids and text.isascii() and text.isprintable() and text != ""

    hidden = [token for token in range(len(words)) if not is_plain(token)]
    with torch.no_grad():
        model.lm_head.weight[hidden] = 0.0


def write_model(folder: Path, size: str) -> None:
    """Config, weights and tokenizer in the layout that every server reads."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    words = tokenizer()
    torch.manual_seed(7)
    hidden, layers, heads, kv_heads, feed_forward = SIZES[size]
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=hidden,
        intermediate_size=feed_forward,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=CONTEXT,
        eos_token_id=words.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=words.convert_tokens_to_ids("<|endoftext|>"),
        tie_word_embeddings=False,
    )
    if size == "tiny":
        model = Qwen2ForCausalLM(config)
    else:
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            model = Qwen2ForCausalLM(config)
        hide_noise(model, words)
        print(f"{sum(part.numel() for part in model.parameters()) / 1e9:.2f} billion parameters", flush=True)
    model.generation_config.do_sample = size == "tiny"
    if size == "tiny":
        model.generation_config.temperature = 1.0
    model.save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if not (target / "config.json").exists():
        part = target.with_name(target.name + ".part")
        write_model(part, sys.argv[2] if len(sys.argv) > 2 else "tiny")
        part.rename(target)
