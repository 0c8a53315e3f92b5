"""Makes a tiny language model with random weights, with its tokenizer and chat template.

    python model.py FOLDER

Needs `transformers` and `torch`. The model is a Qwen2 of two layers and a few MB, from a fixed seed; the
tokenizer is a byte-level BPE learnt from the words below, so every text can be written in it. With
temperature 1 such a model writes noise: split characters and control characters among words, which is
what a reader of streams should meet. Nothing is written when FOLDER already holds a model.
"""

import sys
from pathlib import Path

HIDDEN, LAYERS, HEADS, FEED_FORWARD, CONTEXT = 256, 2, 4, 512, 2048
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


def write_model(folder: Path) -> None:
    """Config, weights and tokenizer in the layout that every server reads."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    words = tokenizer()
    torch.manual_seed(7)
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=HIDDEN,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT,
        eos_token_id=words.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=words.convert_tokens_to_ids("<|endoftext|>"),
        tie_word_embeddings=False,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config.do_sample = True
    model.generation_config.temperature = 1.0
    model.save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if not (target / "config.json").exists():
        part = target.with_name(target.name + ".part")
        write_model(part)
        part.rename(target)
